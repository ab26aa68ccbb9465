//! Drives `weir_fuzz::runtime_commands`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::runtime_commands(data));
