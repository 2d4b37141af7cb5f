//! See `fuzz::opencode::check`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::opencode::check(data));

#[cfg(not(fuzzing))]
fn main() {}
