//! The latch file: it reads as what was written, or as damaged.

use std::fs;

use ralph_orchestrator_machine::{Completion, Latch};
use ralph_orchestrator_store::{Disk, Key, LatchFile, StateError};

use crate::bytes::Bytes;
use crate::{edit, folder, records};

/// Writes a latch, edits the file and reads it.
pub fn check(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    folder::with(|folder| {
        let disk = Disk::default();
        let (key_path, path) = (folder.join("key"), folder.join("latch"));
        fs::write(&key_path, [7; 32]).unwrap();
        let key = Key::read(&disk, &key_path).unwrap().unwrap();
        let latch = latch(&mut bytes);
        latch.write(&disk, &key, &path).unwrap();
        let before = fs::read(&path).unwrap();
        let after = edit::edited(&before, &mut bytes);
        fs::write(&path, &after).unwrap();
        match LatchFile::read(&disk, &key, &path) {
            Ok(found) => {
                assert_eq!(found, Some(latch));
                assert_eq!(before, after, "a change went unnoticed");
            }
            Err(StateError::Damaged { .. }) => assert_ne!(before, after, "an untouched latch"),
            Err(other) => panic!("{other}"),
        }
    });
}

fn latch(bytes: &mut Bytes<'_>) -> LatchFile {
    let (run, seq) = (bytes.text(), bytes.number());
    let latch = match bytes.byte() % 3 {
        0 => Latch::Open,
        1 => Latch::Claimed { claim: records::claim(bytes), iteration: bytes.number() },
        _ => Latch::Completed(Completion {
            claim: records::claim(bytes),
            iteration: bytes.number(),
            tree: bytes.text(),
            evidence: Vec::new(),
            policy: bytes.text(),
            task: bytes.text(),
            validated: bytes.flag(),
            verdicts: Vec::new(),
        }),
    };
    LatchFile::new(&run, seq, latch)
}
