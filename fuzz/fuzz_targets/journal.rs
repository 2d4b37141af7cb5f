//! See `fuzz::journal::check`.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::journal::check(data));

#[cfg(not(fuzzing))]
fn main() {}
