//! accept.

mod clock;
pub mod framing;
pub mod guarded;
pub mod head;
pub mod limits;
mod target;
pub mod turn;
