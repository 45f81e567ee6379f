//! `cargo +nightly fuzz run chat`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oneslot_fuzz::targets::chat(bytes));
