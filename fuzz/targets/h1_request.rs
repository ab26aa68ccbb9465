//! Drives `weir_fuzz::h1_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::h1_request(data));
