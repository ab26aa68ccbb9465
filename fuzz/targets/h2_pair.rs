//! Drives `weir_fuzz::h2_pair`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::h2_pair(data));
