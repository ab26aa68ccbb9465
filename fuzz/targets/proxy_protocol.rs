//! Drives `weir_fuzz::proxy_protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::proxy_protocol(data));
