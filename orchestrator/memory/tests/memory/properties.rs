//! What holds for every file.

use proptest::prelude::*;
use ralph_orchestrator_memory::{
    Action, EntryFormat, SessionEntry, ViewBounds, append_entry, bounded_view, finish_rotation,
    merge, rotate, session_id, split_entries,
};

fn format() -> impl Strategy<Value = EntryFormat> {
    prop_oneof![Just(EntryFormat::Sessions), Just(EntryFormat::Markdown)]
}

/// Content with headings, and without.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let rule = "=".repeat(60).into_bytes();
    let part = prop_oneof![
        3 => Just([rule, b"\n".to_vec()].concat()),
        3 => Just(b"## Iteration 1 - x\n".to_vec()),
        4 => "[a-c=#\\[ \n]{0,12}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
        1 => Just(b"\r\n".to_vec()),
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn the_parts_are_the_file(format in format(), content in content()) {
        let parts = split_entries(format, &content);
        prop_assert_eq!([parts.preamble, &parts.entries.concat()].concat(), content);
    }

    #[test]
    fn a_merge_begins_with_what_was_there_and_loses_nothing(
        format in format(), before in content(), found in content(),
    ) {
        let merged = merge(format, &before, &found);
        prop_assert!(merged.content.starts_with(&before));
        prop_assert_eq!(merged.is_restored, !found.starts_with(&before));
        for entry in split_entries(format, &found).entries {
            let entry = entry.trim_ascii_end();
            prop_assert!(merged.content.windows(entry.len()).any(|part| part == entry));
        }
        let again = merge(format, &before, &merged.content);
        prop_assert_eq!((again.content, again.is_restored), (merged.content, false));
    }

    #[test]
    fn what_is_only_appended_is_left_as_it_is(
        format in format(), before in content(), more in content(),
    ) {
        let found = [before.clone(), more].concat();
        let merged = merge(format, &before, &found);
        prop_assert_eq!((merged.content, merged.is_restored), (found, false));
    }

    #[test]
    fn a_view_is_within_its_bounds(
        entries in proptest::collection::vec("[a-z\n]{0,40}", 0..20), most in 0_usize..9, bytes in 0_usize..200,
    ) {
        let view = bounded_view("Notes:\n", &entries, ViewBounds { entries: most, bytes });
        prop_assert!(view.len() <= bytes);
    }

    #[test]
    fn a_rotation_loses_nothing_and_is_finished_after_a_crash(
        format in format(), content in content(), above in 0_usize..200,
    ) {
        let Some(rotation) = rotate(format, &content, above) else { return Ok(()) };
        let parts = split_entries(format, &content);
        let (old, new) = (&rotation.archived, split_entries(format, &rotation.remaining));
        prop_assert_eq!([old.clone(), new.entries.concat()].concat(), parts.entries.concat());
        prop_assert_eq!(new.preamble, parts.preamble);
        // The archive was written, and the file was not.
        prop_assert_eq!(finish_rotation(format, &content, old), Some(rotation.remaining));
    }
}

/// Ten thousand entries, one after the other, with rotation whenever it is due.
#[test]
fn archive_and_file_are_all_entries() {
    let (mut live, mut archive, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..10_000_u64 {
        let started = i64::try_from(number).unwrap();
        let (session, body) = (session_id(number, started), format!("body {number}"));
        let action = Action::SessionEnded;
        let entry =
            SessionEntry { unix_s: started, session: &session, action, item: None, body: &body };
        let entry = entry.render();
        live = append_entry(&live, entry.as_bytes());
        all.extend_from_slice(entry.as_bytes());
        if let Some(rotation) = rotate(EntryFormat::Sessions, &live, 16 * 1024) {
            archive.extend(rotation.archived);
            live = rotation.remaining;
        }
        assert!(live.len() <= 16 * 1024);
    }
    assert!(archive.len() > live.len());
    assert!([archive, live].concat() == all);
}
