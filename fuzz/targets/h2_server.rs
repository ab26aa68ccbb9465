//! Drives `weir_fuzz::h2_server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::h2_server(data));
