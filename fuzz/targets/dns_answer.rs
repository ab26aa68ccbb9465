//! Drives `weir_fuzz::dns_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::dns_answer(data));
