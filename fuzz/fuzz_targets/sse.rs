//! `cargo +nightly fuzz run sse`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oneslot_fuzz::targets::sse(bytes));
