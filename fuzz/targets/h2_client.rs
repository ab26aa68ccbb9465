//! Drives `weir_fuzz::h2_client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::h2_client(data));
