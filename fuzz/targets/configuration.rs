//! Drives `weir_fuzz::configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::configuration(data));
