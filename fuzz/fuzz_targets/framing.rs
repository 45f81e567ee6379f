//! `cargo +nightly fuzz run framing`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oneslot_fuzz::targets::framing(bytes));
