//! Drives `weir_fuzz::h1_response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::h1_response(data));
