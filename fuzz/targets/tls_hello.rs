//! Drives `weir_fuzz::tls_hello`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::tls_hello(data));
