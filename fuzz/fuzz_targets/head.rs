//! `cargo +nightly fuzz run head`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oneslot_fuzz::targets::head(bytes));
