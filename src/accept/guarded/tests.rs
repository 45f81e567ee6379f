//! The guard under the real HTTP library, over real sockets and in memory.

mod clocks;
mod leaving;
mod rig;
mod serving;
