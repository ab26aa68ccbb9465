//! Drives `weir_fuzz::h1_body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::h1_body(data));
