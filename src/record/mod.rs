//! record.

pub mod meter;
