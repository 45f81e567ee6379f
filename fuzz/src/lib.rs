//! The fuzz targets' bodies, shared with the short seeded run in `tests/fuzz.rs`.
//!
//! `cargo +nightly fuzz run chat` (or `sse`) from the repository's root.

pub mod targets;
