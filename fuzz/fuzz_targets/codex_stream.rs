//! See `fuzz::codex_stream::check`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::codex_stream::check(data));

#[cfg(not(fuzzing))]
fn main() {}
