//! OneSlot: a gateway in front of a local model server that admits there is one slot.
//!
//! The modules stand in the order in which a request meets them; each header says what its
//! stage may decide and what it must never do. `ARCHITECTURE.md` tells the whole life.
//!
//! Pure stages (`http::security`, `queue`, `slot`, `health`, `degrade`, `window`, and the state machine
//! in `desk`) do no I/O and read no clock: time, readings and token counts are arguments.

// The shared words.
pub mod clock;
pub mod power;
#[cfg(target_os = "linux")]
pub mod kernel;
pub mod config;
mod fault;
pub mod refusal;
pub mod state;

// A request's life, in order.
pub mod http;
mod api;
pub mod chat;
pub mod queue;
pub mod slot;
pub mod health;
pub mod pressure;
pub mod pause;
pub mod degrade;
pub mod window;
pub mod upstream;
pub mod relay;
pub mod record;

// What holds the stages together.
pub mod desk;
pub mod exchange;
pub mod gateway;
pub mod demo;
pub mod doctor;
