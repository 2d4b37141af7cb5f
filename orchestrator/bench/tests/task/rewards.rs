//! Reward files by Harbor's rule, and the rewards of several steps.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;
use ralph_orchestrator_bench::task::reward::{
    MAX_REWARD, MAX_REWARD_BYTES, combine_rewards, find_gate_failure, read_rewards, remove_rewards,
};
use ralph_orchestrator_bench::task::{RewardGate, RewardStrategy};

fn rewards(pairs: &[(&str, f64)]) -> BTreeMap<String, f64> {
    pairs.iter().map(|(name, reward)| ((*name).to_owned(), *reward)).collect()
}

/// Returns what is read of these files, or the kind of the error.
fn read(files: &[(&str, &[u8])]) -> Result<BTreeMap<String, f64>, &'static str> {
    let temp = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(temp.path().join(name), content).unwrap();
    }
    read_rewards(temp.path()).map_err(|error| error.kind())
}

#[test]
fn reads_one_number() {
    for (text, number) in [
        ("1", 1.0),
        ("0\n", 0.0),
        (" \t0.5\r\n", 0.5),
        ("-2.5e1", -25.0),
        ("+.5", 0.5),
        ("5.", 5.0),
        ("1_000", 1000.0),
    ] {
        assert_eq!(
            read(&[("reward.txt", text.as_bytes())]),
            Ok(rewards(&[("reward", number)])),
            "{text:?}"
        );
    }
    for text in [
        "nan",
        "inf",
        "-Infinity",
        "1e999",
        "x",
        "1 2",
        "1,5",
        "\n",
        "_1",
        "1_",
        "1__0",
        "1_.5",
        "0x1",
        "\u{feff}1",
    ] {
        assert_eq!(
            read(&[("reward.txt", text.as_bytes())]),
            Err("VerifierOutputParseError"),
            "{text:?}"
        );
    }
    assert_eq!(read(&[("reward.txt", b"\xff")]), Err("VerifierOutputParseError"));
}

#[test]
fn reads_several_numbers() {
    let json = |text: &str| read(&[("reward.json", text.as_bytes())]);
    assert_eq!(json(" {\"a\": 1, \"b\": 0.5, \"a\": 2} "), Ok(rewards(&[("a", 2.0), ("b", 0.5)])));
    assert_eq!(json("{\"a\": true, \"b\": false}"), Ok(rewards(&[("a", 1.0), ("b", 0.0)])));
    for text in [
        "1",
        "[1]",
        "{}",
        "null",
        "{\"a\": \"1\"}",
        "{\"a\": null}",
        "{\"a\": {\"b\": 1}}",
        "{\"a\": [1]}",
        "{\"a\": NaN}",
        "{\"a\": 1e999}",
        "{\"a\": 1",
        "{\"a\": 1} x",
        " ",
        "\u{feff}{\"a\": 1}",
    ] {
        assert_eq!(json(text), Err("VerifierOutputParseError"), "{text}");
    }
}

#[test]
fn a_number_that_is_no_reward_is_named_with_its_file() {
    let message = |name: &str, text: &str| {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join(name), text).unwrap();
        read_rewards(temp.path()).unwrap_err().to_string()
    };
    for (name, text, value) in [
        ("reward.txt", "nan", "NaN"),
        ("reward.txt", "-inf", "-inf"),
        ("reward.txt", "1000000001", "1000000001"),
        ("reward.txt", "-1e300", "-1000"),
        ("reward.json", "{\"speed\": 1e300}", "\"speed\""),
        ("reward.json", "{\"speed\": \"fast\"}", "\"fast\""),
    ] {
        let message = message(name, text);
        assert!(message.contains(name) && message.contains(value), "{message}");
        assert!(message.contains("expected a number"), "{message}");
    }
    // At the boundary, what Harbor takes is taken: rewards need not be from 0 to 1.
    let read = |text: &str| read(&[("reward.txt", text.as_bytes())]);
    assert_eq!(read("1e9"), Ok(rewards(&[("reward", MAX_REWARD)])));
    assert_eq!(read("-1e9"), Ok(rewards(&[("reward", -MAX_REWARD)])));
    assert_eq!(read("1000000000.5"), Err("VerifierOutputParseError"));
}

#[test]
fn the_json_file_wins_even_if_it_is_wrong() {
    assert_eq!(
        read(&[("reward.json", b"{\"a\": 0}"), ("reward.txt", b"1")]),
        Ok(rewards(&[("a", 0.0)]))
    );
    assert_eq!(read(&[("reward.json", b""), ("reward.txt", b"1")]), Err("RewardFileEmptyError"));
    assert_eq!(
        read(&[("reward.json", b"x"), ("reward.txt", b"1")]),
        Err("VerifierOutputParseError")
    );
    assert_eq!(read(&[("reward.txt", b"")]), Err("RewardFileEmptyError"));
    assert_eq!(read(&[("Reward.txt", b"1")]), Err("RewardFileNotFoundError"));
    assert_eq!(
        read_rewards(Path::new("/none/of/these")).unwrap_err().kind(),
        "RewardFileNotFoundError"
    );
}

#[test]
fn links_pipes_folders_and_huge_files_are_no_rewards() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("reward.txt");
    let refused = || {
        let error = read_rewards(temp.path()).unwrap_err();
        assert_eq!(error.kind(), "VerifierOutputParseError");
        remove_rewards(temp.path()).unwrap();
        assert_eq!(read_rewards(temp.path()).unwrap_err().kind(), "RewardFileNotFoundError");
        error.to_string()
    };
    fs::write(temp.path().join("elsewhere"), "1").unwrap();
    symlink("elsewhere", &path).unwrap();
    assert!(refused().contains("it is a link"));
    symlink("/none", &path).unwrap();
    assert!(refused().contains("it is a link"));
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    assert!(refused().contains("not a regular file"));
    fs::create_dir_all(path.join("full")).unwrap();
    refused();
    fs::write(&path, vec![b'1'; MAX_REWARD_BYTES + 1]).unwrap();
    assert!(refused().contains("larger than"));
    assert_eq!(fs::read_to_string(temp.path().join("elsewhere")).unwrap(), "1");
}

#[test]
fn a_verifier_can_write_where_an_agent_has_forbidden_it() {
    let temp = tempfile::tempdir().unwrap();
    let (logs, folder) = (temp.path().join("logs"), temp.path().join("logs/verifier"));
    fs::create_dir_all(&folder).unwrap();
    let mode = |folder: &Path| folder.metadata().unwrap().permissions().mode() & 0o777;
    for forbidden in [0o555, 0o000] {
        fs::write(folder.join("reward.txt"), "1").unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(forbidden)).unwrap();
        fs::set_permissions(&logs, Permissions::from_mode(forbidden)).unwrap();
        remove_rewards(&folder).unwrap();
        assert_eq!((mode(&logs), mode(&folder)), (forbidden | 0o700, forbidden | 0o700));
        assert_eq!(read_rewards(&folder).unwrap_err().kind(), "RewardFileNotFoundError");
    }
}

#[test]
fn the_folder_of_rewards_may_be_no_link() {
    let (theirs, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(theirs.path().join("reward.txt"), "1").unwrap();
    let folder = temp.path().join("verifier");
    symlink(theirs.path(), &folder).unwrap();
    assert_eq!(read_rewards(&folder).unwrap_err().kind(), "VerifierOutputParseError");
    remove_rewards(&folder).unwrap();
    assert!(folder.symlink_metadata().unwrap().is_dir());
    assert!(theirs.path().join("reward.txt").exists());
    fs::remove_dir(&folder).unwrap();
    remove_rewards(&folder).unwrap();
    assert_eq!(read_rewards(&folder).unwrap_err().kind(), "RewardFileNotFoundError");
}

#[test]
fn a_gate_opens_for_rewards_that_are_high_enough() {
    let gate = |pairs: &[(&str, f64)]| RewardGate(rewards(pairs));
    let fails = |gate: &RewardGate, given: Option<&[(&str, f64)]>| {
        let given = given.map(rewards);
        find_gate_failure(Some(gate), given.as_ref())
    };
    assert_eq!(find_gate_failure(None, None), None);
    let one = gate(&[("reward", 0.5)]);
    assert_eq!(fails(&one, Some(&[("reward", 0.5)])), None);
    assert_eq!(
        fails(&one, Some(&[("reward", 0.25)])),
        Some("reward is 0.25, below 0.5".to_owned())
    );
    assert_eq!(
        fails(&one, Some(&[("a", 1.0)])),
        Some("reward is missing, expected at least 0.5".to_owned())
    );
    assert!(fails(&one, None).is_some());
    let two = gate(&[("a", 1.0), ("b", 0.0)]);
    assert_eq!(fails(&two, Some(&[("a", 1.0), ("b", 0.0)])), None);
    assert!(fails(&two, Some(&[("a", 1.0)])).is_some());
}

#[test]
fn steps_are_summed_up_by_their_mean_or_their_last() {
    let some = |pairs: &[(&str, f64)]| Some(rewards(pairs));
    let steps = [some(&[("a", 1.0)]), None, some(&[("a", 0.0), ("b", 1.0)])];
    assert_eq!(combine_rewards(RewardStrategy::Mean, &steps), some(&[("a", 0.5), ("b", 0.5)]));
    assert_eq!(combine_rewards(RewardStrategy::Final, &steps), some(&[("a", 0.0), ("b", 1.0)]));
    assert_eq!(combine_rewards(RewardStrategy::Final, &steps[..2]), None);
    for strategy in [RewardStrategy::Mean, RewardStrategy::Final] {
        assert_eq!(combine_rewards(strategy, &[]), None);
        assert_eq!(combine_rewards(strategy, &[None]), None);
        assert_eq!(combine_rewards(strategy, &[some(&[("a", 0.25)])]), some(&[("a", 0.25)]));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_finite_rewards_or_an_error(
        json in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)),
        text in "[0-9eE+._naifINF -]{0,12}",
    ) {
        let mut files = vec![("reward.txt", text.as_bytes())];
        if let Some(json) = &json {
            files.push(("reward.json", json));
        }
        if let Ok(found) = read(&files) {
            prop_assert!(!found.is_empty() && found.values().all(|reward| reward.abs() <= MAX_REWARD));
        }
    }

    #[test]
    fn every_reward_is_read_back(number in -MAX_REWARD..=MAX_REWARD) {
        let text = format!("{number}\n");
        prop_assert_eq!(read(&[("reward.txt", text.as_bytes())]), Ok(rewards(&[("reward", number)])));
        let json = serde_json::json!({ "x": number }).to_string();
        let found = read(&[("reward.json", json.as_bytes())]).unwrap()["x"];
        prop_assert!((found - number).abs() <= number.abs() * 1e-15);
    }
}
