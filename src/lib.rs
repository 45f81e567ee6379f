//! OneSlot: a gateway in front of a local model server that admits there is one slot.
//!
//! The modules stand in the order in which a request meets them; each header says what its
//! stage may decide and what it must never do. `ARCHITECTURE.md` tells the whole life.
//!
//! Pure stages (`http::security`, `degrade`, `window`, and the state machine in `scheduler`) do no
//! I/O and read no clock: time, readings and token counts are arguments.

// Shared.
pub mod clock;
#[cfg(target_os = "linux")]
pub mod fd_events;
pub mod config;
mod fault_injection;
pub mod refusal;
pub mod state;

// A request's path, in order.
pub mod http;
mod api;
pub mod request;
pub mod scheduler;
pub mod degrade;
pub mod window;
pub mod proxy;
pub mod upstream;
pub mod memory;
pub mod telemetry;

// What the stages share, what builds them, what runs in the background.
pub mod context;
pub mod server;
pub mod monitor;
pub mod control_client;
pub mod demo;
pub mod doctor;
