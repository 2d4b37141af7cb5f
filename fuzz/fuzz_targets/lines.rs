//! See `fuzz::lines::check`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::lines::check(data));

#[cfg(not(fuzzing))]
fn main() {}
