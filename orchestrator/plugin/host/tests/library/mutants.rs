//! Whatever the bytes are: `inspect` says something, and does not panic.

use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::mem::discriminant;
use std::panic::catch_unwind;

use ralph_orchestrator_plugin_abi::{ABI_MAJOR, MAGIC};
use ralph_orchestrator_plugin_host::inspect;

use crate::c;

/// A matter of seconds also without optimisation.
const MUTANTS: u64 = 20_000;

/// The same figures for the same seed, everywhere (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }
}

/// Where the structures are that are believed: headers, tables, the symbols' strings, our own data.
fn interesting(good: &[u8]) -> Vec<usize> {
    let word =
        |at: usize| usize::try_from(u64::from_le_bytes(good[at..at + 8].try_into().unwrap()));
    let find = |what: &[u8]| good.windows(what.len()).position(|some| some == what).unwrap();
    let sections = word(40).unwrap();
    let mut all: Vec<usize> = (0..64 + 12 * 56).collect();
    all.extend(sections..good.len());
    for start in [find(b"RALPHPLG"), find(b"{\"name\""), find(b"ralph_plugin_decl")] {
        all.extend(start..start + 64);
    }
    // The dynamic symbols are before their strings.
    let strings = find(b"ralph_plugin_decl");
    all.extend(strings.saturating_sub(512)..strings);
    all
}

fn mutant(good: &[u8], places: &[usize], random: &mut Random) -> Vec<u8> {
    const EXTREME: [u64; 8] =
        [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(6) {
        let at = places[random.below(places.len())].min(bytes.len() - 1);
        let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
        let value = match random.below(3) {
            0 => EXTREME[random.below(EXTREME.len())],
            1 => random.next() % 64,
            _ => random.next(),
        };
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
    match random.below(12) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => {
            let (from, to) = (random.below(bytes.len()), random.below(bytes.len()));
            let length = random.below(256).min(bytes.len() - from.max(to));
            bytes.copy_within(from..from + length, to);
        }
        _ => {}
    }
    bytes
}

#[test]
fn no_mutant_of_a_good_library_upsets_it() {
    let folder = tempfile::tempdir().unwrap();
    let good = fs::read(c::plugin(folder.path(), "good.so", &["-s"])).unwrap();
    let places = interesting(&good);
    let mut random = Random(0x5eed);
    let (mut fine, mut kinds) = (0, BTreeSet::new());
    for number in 0..MUTANTS {
        let bytes = mutant(&good, &places, &mut random);
        match catch_unwind(|| inspect(Cursor::new(&bytes))) {
            Ok(Ok(header)) => {
                fine += 1;
                let found = (header.prefix.magic, header.prefix.abi_major);
                assert_eq!(found, (MAGIC, ABI_MAJOR), "mutant {number}");
                assert!(!header.manifest.provides.is_empty(), "mutant {number}");
            }
            Ok(Err(defects)) => {
                assert!(!defects.to_string().is_empty(), "mutant {number}");
                kinds.extend(
                    defects.all().iter().map(|defect| format!("{:?}", discriminant(defect))),
                );
            }
            Err(_) => panic!("mutant {number} made it panic"),
        }
    }
    // Otherwise they would all be refused by the first look.
    assert!(fine > MUTANTS / 100, "only {fine} of {MUTANTS} were still good");
    assert!(kinds.len() >= 12, "only {} kinds of defects were seen", kinds.len());
}
