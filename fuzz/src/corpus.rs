//! The bounded run: all seeds, and as many mutations of each as fit into a test.

use std::fs;
use std::path::Path;

/// A generator that is the same everywhere (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap();
        usize::try_from(self.next() % bound).unwrap()
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus-seeds").join(target);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no seeds", folder.display());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Changes the bytes once, with pieces of `other`.
fn mutate(data: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(data.len() + 1);
    let length = 1 + random.below(16);
    let end = (at + length).min(data.len());
    match random.below(7) {
        0 if at < data.len() => data[at] ^= 1 << random.below(8),
        1 if at < data.len() => data[at] = random.next().to_le_bytes()[0],
        2 => data.truncate(at),
        3 => drop(data.drain(at..end)),
        4 => drop(data.splice(end..end, data[at..end].to_vec())),
        5 => {
            let from = random.below(other.len());
            let piece = other.iter().skip(from).take(length * 4).copied();
            drop(data.splice(at..at, piece.collect::<Vec<_>>()));
        }
        _ => {
            let odd = [&b"\n"[..], b"\r", b"\0", b"\xff", b"\"", b"{}", b"[]", b"`", b"9999999999"];
            drop(data.splice(at..at, odd[random.below(odd.len())].to_vec()));
        }
    }
}

/// Checks all seeds and so many mutations of them: the same ones every time.
fn run(target: &str, mutations: usize, check: fn(&[u8])) {
    let seeds = seeds(target);
    let mut random = Random(0x5eed);
    for seed in &seeds {
        check(seed);
    }
    for n in 0..mutations {
        let mut data = seeds[n % seeds.len()].clone();
        for _ in 0..=random.below(4) {
            mutate(&mut data, &seeds[random.below(seeds.len())], &mut random);
        }
        let checked = std::panic::catch_unwind(|| check(&data));
        assert!(checked.is_ok(), "{target}: mutation {n} is\n{}", data.escape_ascii());
    }
}

macro_rules! targets {
    ($($target:ident: $mutations:literal,)*) => {
        $(
            #[test]
            fn $target() {
                run(stringify!($target), $mutations, crate::$target::check);
            }
        )*
    };
}

// So many that each takes a second or two.
targets! {
    capture: 20000,
    claude_stream: 400,
    codex_stream: 1500,
    config: 800,
    evidence: 3000,
    git_index: 600,
    journal: 600,
    latch: 1000,
    lines: 20000,
    machine: 3000,
    marker: 5000,
    opencode: 1500,
    promise: 3000,
    state: 250,
}
