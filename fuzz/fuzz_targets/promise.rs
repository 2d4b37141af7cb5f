//! See `fuzz::promise::check`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::promise::check(data));

#[cfg(not(fuzzing))]
fn main() {}
