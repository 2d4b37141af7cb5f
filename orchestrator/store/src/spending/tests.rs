use proptest::prelude::*;

use super::*;

fn entry(run: &str, sessions: u64) -> SpendingEntry {
    let used = UsedAmount {
        cost_usd: Usd::from_nanos(sessions.saturating_mul(100_000_001)),
        tokens: sessions,
        sessions,
        ..UsedAmount::default()
    };
    SpendingEntry {
        at_ms: 1,
        run: run.to_owned(),
        state: "/states/s".into(),
        workspace: "/w".into(),
        agent: "claude".to_owned(),
        model: None,
        used: BTreeMap::from([("claude".to_owned(), used)]),
        reserved: None,
    }
}

fn record(ledger: &mut SpendingLedger, entry: SpendingEntry) {
    ledger.update(|_| (Some(entry), ())).unwrap();
}

fn open(states: &Path) -> SpendingLedger {
    SpendingLedger::open(&Disk::default(), states).unwrap()
}

fn sessions(spending: &Spending) -> u64 {
    spending.charges().iter().map(|charge| charge.used.sessions).sum()
}

fn append(states: &Path, bytes: &[u8]) {
    let path = LedgerPaths::new(states).ledger();
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn what_is_recorded_again_is_charged_once() {
    let temp = tempfile::tempdir().unwrap();
    let mut ledger = open(temp.path());
    for used in [3, 3, 5, 5, 6] {
        record(&mut ledger, entry("a", used));
    }
    assert_eq!(sessions(ledger.spending()), 3, "the first entry of a run charges nothing");
    let largest = ledger.spending().largest_charge("claude").unwrap();
    assert_eq!((largest.tokens, ledger.spending().largest_charge("codex")), (2, None));
    let read = SpendingLedger::read(temp.path()).unwrap().unwrap();
    assert_eq!(read, open(temp.path()).spending().clone());
    assert_eq!(&read, ledger.spending());
}

#[test]
fn each_agent_is_charged_what_it_used() {
    let temp = tempfile::tempdir().unwrap();
    let mut ledger = open(temp.path());
    record(&mut ledger, entry("a", 1));
    let mut reviewed = SpendingEntry { model: Some("opus".to_owned()), ..entry("a", 2) };
    reviewed.used.insert("reviewer".to_owned(), UsedAmount { tokens: 9, ..UsedAmount::default() });
    record(&mut ledger, reviewed);
    let rows = ledger.spending().charges().iter();
    let rows: Vec<_> =
        rows.map(|row| (row.agent.as_str(), row.model.as_deref(), row.used.tokens)).collect();
    assert_eq!(rows, [("claude", Some("opus"), 1), ("reviewer", None, 9)]);
}

#[test]
fn a_reservation_stands_until_the_next_entry_of_its_run() {
    let temp = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (open(temp.path()), open(temp.path()));
    let reserved = ReservedAmount { cost_usd: Usd::from_nanos(7), tokens: 7, is_known: true };
    record(&mut one, SpendingEntry { reserved: Some(reserved), ..entry("a", 0) });
    let stands =
        |spending: &Spending| spending.reservations().map(|(_, it)| it.tokens).sum::<u64>();
    assert_eq!(other.update(|spending| (None, stands(spending))).unwrap(), 7);
    record(&mut one, entry("a", 0));
    assert_eq!(stands(other.refresh().unwrap()), 0);
    assert!(other.spending().charges().is_empty());
}

#[test]
fn there_is_no_ledger_before_one_is_begun_and_a_crash_at_the_beginning_does_no_harm() {
    let temp = tempfile::tempdir().unwrap();
    assert_eq!(SpendingLedger::read(temp.path()).unwrap(), None);
    let paths = LedgerPaths::new(temp.path());
    open(temp.path());
    // Before the key was in its place.
    fs::rename(paths.key(), paths.folder.join("ledger.key.new")).unwrap();
    assert_eq!(SpendingLedger::read(temp.path()).unwrap(), None);
    record(&mut open(temp.path()), entry("a", 0));
    // Before the ledger was.
    fs::remove_dir_all(&paths.folder).unwrap();
    fs::create_dir(&paths.folder).unwrap();
    fs::write(paths.folder.join("ledger.key.new"), "half").unwrap();
    record(&mut open(temp.path()), entry("a", 0));
}

#[test]
fn a_changed_ledger_is_refused_with_its_name_and_the_way_out() {
    type Sabotage = fn(&LedgerPaths);
    let cases: [(&str, Sabotage); 7] = [
        ("was removed", |paths| fs::remove_file(paths.ledger()).unwrap()),
        ("has lost its key", |paths| fs::remove_file(paths.key()).unwrap()),
        ("is shorter than it was", |paths| fs::write(paths.ledger(), "").unwrap()),
        ("has lost its end", |paths| {
            let text = fs::read_to_string(paths.ledger()).unwrap();
            fs::write(paths.ledger(), text.trim_end().to_owned() + " ").unwrap();
        }),
        ("line 2 is not as it was written", |paths| {
            let text = fs::read_to_string(paths.ledger()).unwrap();
            fs::write(paths.ledger(), text.replacen("\"tokens\":4", "\"tokens\":0", 1)).unwrap();
        }),
        ("line 2 does not follow", |paths| {
            let text = fs::read_to_string(paths.ledger()).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            let twice = [lines[0], lines[2], lines[2], lines[2]].join("\n") + "\n";
            fs::write(paths.ledger(), twice).unwrap();
        }),
        ("was removed", |paths| {
            for file in [paths.ledger(), paths.key()] {
                fs::remove_file(file).unwrap();
            }
        }),
    ];
    for (expected, sabotage) in cases {
        let temp = tempfile::tempdir().unwrap();
        let mut ledger = open(temp.path());
        record(&mut ledger, entry("a", 4));
        record(&mut ledger, entry("a", 5));
        sabotage(&LedgerPaths::new(temp.path()));
        for _ in 0..2 {
            let opened = SpendingLedger::open(&Disk::default(), temp.path()).map(drop);
            let read = SpendingLedger::read(temp.path()).map(drop);
            for refused in [opened.unwrap_err(), read.unwrap_err()] {
                let said = refused.to_string();
                for part in [expected, "/.budget/ledger.jsonl", "away"] {
                    assert!(said.contains(part), "{part} in {said}");
                }
            }
        }
    }
}

#[test]
fn a_ledger_that_goes_away_while_it_is_used_is_not_begun_anew() {
    let temp = tempfile::tempdir().unwrap();
    let mut ledger = open(temp.path());
    record(&mut ledger, entry("a", 1));
    fs::remove_dir_all(&ledger.paths.folder).unwrap();
    let said = ledger.update(|_| (Some(entry("a", 2)), ())).unwrap_err().to_string();
    assert!(said.contains("was removed"), "{said}");
    assert!(!ledger.paths.folder.exists());
}

/// One step of a process that works with the ledger.
#[derive(Clone, Debug)]
enum Step {
    /// A run has used so many sessions more.
    Use { process: usize, more: u64 },
    /// A crash after the entry was written, before its length was.
    UseUnpinned { process: usize, more: u64 },
    /// A crash in the middle of an entry, and the process begins again.
    Tear { process: usize, bytes: Vec<u8> },
    /// The process begins again.
    Restart { process: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let process = 0..3_usize;
    let step = prop_oneof![
        (process.clone(), 0..4_u64).prop_map(|(process, more)| Step::Use { process, more }),
        (process.clone(), 0..4_u64).prop_map(|(process, more)| Step::UseUnpinned { process, more }),
        (
            process.clone(),
            prop::collection::vec(any::<u8>().prop_filter("no line", |b| *b != b'\n'), 0..300)
        )
            .prop_map(|(process, bytes)| Step::Tear { process, bytes }),
        process.prop_map(|process| Step::Restart { process }),
    ];
    prop::collection::vec(step, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is torn and whoever begins again, each run is charged what it has used, once.
    #[test]
    fn charges_survive_crashes(steps in steps()) {
        let temp = tempfile::tempdir().unwrap();
        let mut used = [0_u64; 3];
        let mut ledgers = [0; 3].map(|_| open(temp.path()));
        for (process, ledger) in ledgers.iter_mut().enumerate() {
            record(ledger, entry(&process.to_string(), 0));
        }
        for step in steps {
            match step {
                Step::Use { process, more } => {
                    used[process] += more;
                    record(&mut ledgers[process], entry(&process.to_string(), used[process]));
                }
                Step::UseUnpinned { process, more } => {
                    used[process] += more;
                    let lock = LedgerPaths::new(temp.path()).lock();
                    let pinned = fs::read(&lock).unwrap();
                    record(&mut ledgers[process], entry(&process.to_string(), used[process]));
                    fs::write(&lock, pinned).unwrap();
                    ledgers[process] = open(temp.path());
                }
                Step::Tear { process, bytes } => {
                    append(temp.path(), &bytes);
                    ledgers[process] = open(temp.path());
                }
                Step::Restart { process } => ledgers[process] = open(temp.path()),
            }
        }
        let read = SpendingLedger::read(temp.path()).unwrap().unwrap();
        prop_assert_eq!(sessions(&read), used.iter().sum::<u64>());
        for ledger in &mut ledgers {
            prop_assert_eq!(ledger.refresh().unwrap(), &read);
        }
    }

    /// Processes that append at the same time lose nothing, and each decides on what the others have written.
    #[test]
    fn appends_at_the_same_time_are_in_one_order(shares in prop::collection::vec(1..12_u64, 2..5)) {
        let temp = tempfile::tempdir().unwrap();
        let states = temp.path();
        let most = 20;
        let granted: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> = shares.iter().enumerate().map(|(number, share)| {
                scope.spawn(move || {
                    let (mut ledger, run) = (open(states), number.to_string());
                    record(&mut ledger, entry(&run, 0));
                    let mut granted = 0;
                    for _ in 0..*share {
                        granted += ledger.update(|spending| {
                            let may = sessions(spending) < most;
                            (may.then(|| entry(&run, granted + 1)), u64::from(may))
                        }).unwrap();
                    }
                    granted
                })
            }).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        prop_assert_eq!(granted, shares.iter().sum::<u64>().min(most));
        let read = SpendingLedger::read(states).unwrap().unwrap();
        prop_assert_eq!(sessions(&read), granted);
    }
}
