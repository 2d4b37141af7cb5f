//! The journal's reader: whatever was done to the file, it gives the records that were written, from
//! the first one on and without a change, or says that the journal is damaged.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{
    Disk, Journal, JournalEntry, Key, StateError, TornLine, read_journal,
};

use crate::bytes::Bytes;
use crate::{edit, folder, records};

/// Writes a journal, edits the file and reads it.
pub fn check(data: &[u8]) {
    folder::with_empty(|folder| inside(folder, &mut Bytes::new(data)));
}

fn inside(folder: &Path, bytes: &mut Bytes<'_>) {
    let disk = Disk::default();
    let path = folder.join("journal.jsonl");
    let key_path = folder.join("key");
    fs::write(&key_path, [7; 32]).unwrap();
    let key = Key::read(&disk, &key_path).unwrap().unwrap();
    let time = Timestamp::from_second(1_700_000_000).unwrap();
    let mut journal = Journal::create(&disk, &path, &key).unwrap();
    let mut written = Vec::new();
    for _ in 0..bytes.byte() % 8 {
        let record = records::record(bytes);
        journal.append(time, &record).unwrap();
        written.push(record);
    }
    drop(journal);
    let before = fs::read(&path).unwrap();
    let after = edit::edited(&before, bytes);
    fs::write(&path, &after).unwrap();

    let found = collect(|each| read_journal(&disk, &path, &key, each));
    let opened = collect(|each| Journal::open(&disk, &path, &key, each).map(|(_, torn)| torn));
    assert_eq!(found.is_ok(), opened.is_ok(), "reading and opening do not agree");
    let Ok((found, torn)) = found else {
        assert_ne!(before, after, "an untouched journal is refused");
        assert_eq!(fs::read(&path).unwrap(), after, "a damaged journal was changed");
        return;
    };
    let (found_again, torn_again) = opened.unwrap();
    assert_eq!((&found, torn), (&found_again, torn_again));
    assert!(found.len() <= written.len(), "records were invented");
    assert_eq!(found, written[..found.len()], "records were changed");
    if before == after {
        assert_eq!((found.len(), torn), (written.len(), None));
    }
    let tail = after.rsplit(|byte| *byte == b'\n').next().unwrap_or_default().len();
    assert_eq!(torn.map_or(0, |torn| torn.bytes), u64::try_from(tail).unwrap());
    // What is whole is kept, and can be gone on with.
    let (mut journal, torn) = Journal::open(&disk, &path, &key, |_: JournalEntry| {}).unwrap();
    assert_eq!(torn, None, "a torn line was cut only once");
    assert_eq!(fs::read(&path).unwrap(), after[..after.len() - tail]);
    let next = Record::Warning { message: "next".into() };
    journal.append(time, &next).unwrap();
    let (all, _) = collect(|each| read_journal(&disk, &path, &key, each)).unwrap();
    assert_eq!(all.split_last().unwrap(), (&next, &found[..]));
}

type Found = (Vec<Record>, Option<TornLine>);

fn collect(
    read: impl FnOnce(&mut dyn FnMut(JournalEntry)) -> Result<Option<TornLine>, StateError>,
) -> Result<Found, StateError> {
    let mut records = Vec::new();
    let torn = read(&mut |entry| {
        records.push(entry.record);
        assert_eq!(entry.seq, u64::try_from(records.len()).unwrap());
    });
    match torn {
        Ok(torn) => Ok((records, torn)),
        Err(error @ StateError::Damaged { .. }) => Err(error),
        Err(other) => panic!("{other}"),
    }
}
