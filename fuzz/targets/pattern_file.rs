//! Drives `weir_fuzz::pattern_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::pattern_file(data));
