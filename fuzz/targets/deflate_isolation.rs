//! Drives `weir_fuzz::deflate_isolation`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::deflate_isolation(data));
