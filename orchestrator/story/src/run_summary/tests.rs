use ralph_orchestrator_contract::{Claim, ClaimSource, Usage, Verdict};
use ralph_orchestrator_machine::{
    BaselineMode, ChangedFile, FileChange, FrozenPolicy, MOST_CAUSES, RunStarted, SaveMode,
    Trigger, first_clause,
};

use super::*;

fn started() -> Record {
    Record::RunStarted(RunStarted {
        version: 1,
        agent: "fake".into(),
        fallback: Vec::new(),
        workspace: "/w".into(),
        policy: FrozenPolicy::default(),
        limits: ralph_orchestrator_machine::RunLimits {
            max_failures: 5,
            max_stagnant: 10,
            max_rejections: 3,
            max_wait_ms: 0,
            waits_until_reset: false,
            ..ralph_orchestrator_machine::RunLimits::default()
        },
        tree: "t0".into(),
        evidence: Vec::new(),
        evidence_overflowed: false,
        baseline: BaselineMode::Off,
        saves: SaveMode::Off,
        identities: ralph_orchestrator_machine::PathIdentities::default(),
        task: String::new(),
        checkout: false,
        hooks: Default::default(),
        escalation: None,
        once: false,
        attached: false,
    })
}

fn iteration(n: u64, tree: &str) -> Vec<Record> {
    vec![
        Record::IterationStarted {
            iteration: n,
            attempt: 1,
            trigger: Trigger::Continued,
            prompt: String::new(),
            fingerprint: String::new(),
            agent: String::new(),
            given: BTreeMap::new(),
            model: None,
            version: None,
            role: None,
            prompt_file: None,
            controls: Vec::new(),
            reservation: Usd::ZERO,
            runtime_ms: n * 1000,
        },
        Record::IterationEnded {
            iteration: n,
            outcome: IterationOutcome::Succeeded,
            usage: Usage::default(),
            cost_usd: Usd::from_dollars(0.1).unwrap(),
            says_done: false,
            says_all_done: false,
            tool_calls: None,
            left_behind: Vec::new(),
            survived: Vec::new(),
            runtime_ms: n * 1000 + 400,
        },
        Record::Observed {
            iteration: n,
            work: None,
            tree: tree.into(),
            evidence_written: BTreeMap::new(),
            evidence_complete: true,
            evidence: String::new(),
            near_misses: Vec::new(),
            changes: None,
            runtime_ms: n * 1000 + 400,
        },
    ]
}

fn claimed(n: u64) -> Record {
    let claim = Claim {
        kind: ClaimKind::Complete,
        detector: "promise".into(),
        source: ClaimSource::Message,
        text: "done".into(),
    };
    Record::Claimed { iteration: n, claim }
}

fn named(validator: &str, verdict: Verdict) -> ValidatorVerdict {
    ValidatorVerdict {
        validator: validator.into(),
        required: true,
        duration_ms: 1,
        verdict,
        tests: None,
    }
}

fn rejected(n: u64, verdicts: Vec<ValidatorVerdict>) -> Record {
    Record::Validated {
        iteration: n,
        accepted: false,
        tree: String::new(),
        verdicts,
        tree_left: None,
        reasons: vec!["the workspace changed while it was validated; leave nothing".into()],
        runtime_ms: 0,
    }
}

fn summarize(records: &[Record]) -> RunSummary {
    std::iter::once(&started()).chain(records).collect()
}

#[test]
fn sums_up_what_is_always_the_same_in_one_line() {
    let missing = "evidence directory `proof` not found: create /x/1 and put 3 files in it";
    let mut records = Vec::new();
    for n in 1..=50 {
        records.extend(iteration(n, &format!("t{n}")));
        records.push(claimed(n));
        records.push(rejected(n, vec![named("evidence-files", Verdict::rejected(missing))]));
    }
    let summary = summarize(&records);
    let line = "claimed 50×, rejected 50×, always: evidence directory `proof` not found";
    assert_eq!(summary.claim_stats.summary_line().as_deref(), Some(line));
    assert_eq!(summary.cost_usd, Usd::from_dollars(5.0).unwrap());
    assert_eq!(summary.iterations.len(), 50);
    assert!(
        summary.iterations.values().all(|iteration| iteration.is_like(&summary.iterations[&1]))
    );
    assert!(summary.iterations.values().all(|iteration| iteration.duration_ms == 400));
}

#[test]
fn tells_causes_apart_and_counts_them() {
    let tests = |n: u32| {
        let text = format!("`make test` failed: ended with exit {n}, expected exit 0.\n{n} failed");
        named("tests", Verdict::rejected(text))
    };
    let error =
        || named("lint", Verdict::Error { message: "`lint: all` timed out after 3 s".into() });
    let mut records = vec![claimed(0)];
    for n in 1..=3 {
        records.extend(iteration(n, "t1"));
        let verdicts = if n == 2 { vec![tests(2), error()] } else { vec![tests(1)] };
        records.push(rejected(n, verdicts));
    }
    let summary = summarize(&records);
    let line = "claimed 1×, rejected 3×, always: tests: `make test` failed";
    assert_eq!(summary.claim_stats.summary_line().as_deref(), Some(line));
    let texts: Vec<_> = summary
        .claim_stats
        .causes
        .iter()
        .map(|cause| summary.claim_stats.cause_text(cause))
        .collect();
    assert_eq!(
        texts,
        ["tests: `make test` failed", "lint: not checked: `lint: all` timed out after 3 s"]
    );
    records.extend(iteration(4, "t1"));
    records.push(rejected(4, Vec::new()));
    let line = "claimed 1×, rejected 4×, mostly (3×): tests: `make test` failed";
    assert_eq!(summarize(&records).claim_stats.summary_line().as_deref(), Some(line));
}

#[test]
fn work_that_nobody_could_check_is_not_called_rejected() {
    let error = || vec![named("tests", Verdict::Error { message: "`make` timed out: 3 s".into() })];
    let unchecked = |n| {
        let mut record = rejected(n, error());
        if let Record::Validated { reasons, .. } = &mut record {
            *reasons = vec!["tests: the check could not run".into()];
        }
        record
    };
    let mut records = vec![claimed(1), unchecked(1)];
    let line = |records: &[Record]| summarize(records).claim_stats.summary_line().unwrap();
    assert_eq!(line(&records), "claimed 1×, not checked 1×: `make` timed out");
    assert!(summarize(&records).iterations[&1].unchecked);
    // Something else was wrong with the work.
    let altered = line(&[claimed(1), rejected(1, error())]);
    assert_eq!(altered, "claimed 1×, rejected 1×: not checked: `make` timed out");
    records.extend([claimed(2), unchecked(2)]);
    assert_eq!(line(&records), "claimed 2×, not checked 2×, always: `make` timed out");
    let verdicts = vec![named("tests", Verdict::rejected("exit 1"))];
    records.extend([claimed(3), rejected(3, verdicts)]);
    let mixed =
        "claimed 3×, rejected 1×, not checked 2×, mostly (2×): not checked: `make` timed out";
    assert_eq!(line(&records), mixed);
}

#[test]
fn what_was_so_once_is_not_called_mostly() {
    let once = |n, text| rejected(n, vec![named("tests", Verdict::rejected(text))]);
    let records = [claimed(1), once(1, "exit 1"), claimed(2), once(2, "exit 2")];
    let line = summarize(&records).claim_stats.summary_line().unwrap();
    assert!(line.starts_with("claimed 2×, rejected 2×, such as: exit "), "{line}");
}

#[test]
fn a_check_that_a_start_only_repeats_counts_for_nothing() {
    let failed = |n| rejected(n, vec![named("tests", Verdict::rejected("exit 1"))]);
    let line = |records: &[Record]| summarize(records).claim_stats.summary_line().unwrap();
    let mut records = vec![claimed(1), failed(1), claimed(2), failed(2), failed(2), failed(2)];
    assert_eq!(line(&records), "claimed 2×, rejected 2×, always: exit 1");
    let mut accepted = rejected(3, Vec::new());
    if let Record::Validated { accepted, .. } = &mut accepted {
        *accepted = true;
    }
    records.extend([claimed(3), accepted]);
    assert_eq!(line(&records), "claimed 3×, rejected 2×: exit 1");
}

#[test]
fn a_single_rejection_is_not_called_always() {
    let records = [claimed(1), rejected(1, vec![named("tests", Verdict::rejected("exit 1"))])];
    assert_eq!(
        summarize(&records).claim_stats.summary_line().as_deref(),
        Some("claimed 1×, rejected 1×: exit 1")
    );
    assert_eq!(summarize(&records[..1]).claim_stats.summary_line().as_deref(), Some("claimed 1×"));
    assert_eq!(summarize(&[]).claim_stats.summary_line(), None);
    let mut silent = iteration(1, "t1");
    if let Record::IterationEnded { says_done, .. } = &mut silent[1] {
        *says_done = true;
    }
    assert_eq!(
        summarize(&silent).claim_stats.summary_line().as_deref(),
        Some("said to be done 1×, never claimed")
    );
}

#[test]
fn what_an_iteration_has_used_is_known_before_its_end_and_counted_once() {
    let usage =
        |cents: u64| Usage { cost: Some(Usd::from_nanos(cents * 10_000_000)), ..Usage::default() };
    let used = |cents| Record::Usage { usage: usage(cents), runtime_ms: 5 };
    let mut records = iteration(1, "t1");
    records.splice(1..1, [used(20), used(30)]);
    let cost = |records: &[Record]| summarize(records).iterations[&1].cost_usd;
    assert_eq!(cost(&records[..2]), usage(20).cost.unwrap());
    assert_eq!(cost(&records[..3]), usage(30).cost.unwrap());
    if let Record::IterationEnded { usage: own, cost_usd, .. } = &mut records[3] {
        (*own, *cost_usd) = (usage(35), usage(40).cost.unwrap());
    }
    assert_eq!(cost(&records), usage(40).cost.unwrap());
    // Another attempt at the same iteration.
    let twice = [records.clone(), records].concat();
    assert_eq!(cost(&twice), usage(80).cost.unwrap());
}

#[test]
fn follows_the_tree_back_and_forth() {
    let trees = ["t1", "t1", "t2", "t1", "t3"];
    let records: Vec<Record> = (1..).zip(trees).flat_map(|(n, tree)| iteration(n, tree)).collect();
    let summary = summarize(&records);
    let changes: Vec<TreeChange> =
        summary.iterations.values().map(|iteration| iteration.tree).collect();
    use TreeChange::{Back, New, Unchanged};
    assert_eq!(changes, [New, Unchanged, New, Back, New]);
}

#[test]
fn clauses_end_outside_quotes() {
    let table = [
        ("one: two", "one"),
        ("`sh -c 'a: b'` failed: x", "`sh -c 'a: b'` failed"),
        ("only 1 of 3 files count; add 2", "only 1 of 3 files count"),
        ("file a.txt is empty. Write it", "file a.txt is empty"),
        ("at 12:30 nothing\nmore", "at 12:30 nothing"),
        ("", ""),
        ("`open: never closed", "`open: never closed"),
        ("the plugin `mine`: it has ended: exit 1", "the plugin `mine`: it has ended"),
    ];
    for (reason, clause) in table {
        assert_eq!(first_clause(reason), clause, "{reason:?}");
    }
    assert_eq!(first_clause(&"é".repeat(500)).chars().count(), 121);
}

#[test]
fn the_number_of_causes_is_bounded() {
    let validated = |n| rejected(n, vec![named("tests", Verdict::rejected(format!("{n} failed")))]);
    let records: Vec<Record> =
        (1..=1000).flat_map(|n| [iteration(n, "t1"), vec![validated(n)]].concat()).collect();
    let summary = summarize(&records);
    assert_eq!(summary.claim_stats.causes.len(), MOST_CAUSES + 1);
    assert_eq!(summary.claim_stats.causes.iter().map(|cause| cause.times).sum::<u64>(), 1000);
    let line = "claimed 0×, rejected 1000×, mostly (900×): other reasons";
    assert_eq!(summary.claim_stats.summary_line().as_deref(), Some(line));
}

#[test]
fn sums_up_what_iterations_changed_and_names_their_agents() {
    let changes = |path: &str, added| {
        let file = ChangedFile {
            path: path.into(),
            change: FileChange::Modified,
            lines_added: Some(added),
            lines_removed: Some(1),
        };
        Changes::from_iter([file])
    };
    let mut records = iteration(1, "t1");
    records.extend(iteration(2, "t2"));
    for (at, path, added) in [(2, "a", 3), (5, "a", 4)] {
        if let Record::Observed { changes: known, .. } = &mut records[at] {
            *known = Some(changes(path, added));
        }
    }
    records.insert(
        3,
        Record::AgentChanged {
            from: "command".into(),
            to: "spare".into(),
            reason: "x".into(),
            escalated: false,
        },
    );
    let summary = summarize(&records);
    let whole = &summary.changes;
    assert_eq!((whole.files, whole.lines_added, whole.lines_removed), (1, 7, 2));
    let agents: Vec<&str> = summary.iterations.values().map(|e| e.agent.as_str()).collect();
    assert_eq!(agents[1], "spare");
    assert!(!agents[0].is_empty());
    assert_eq!(summary.iterations[&2].changes.as_ref().unwrap().lines_added, 4);
    assert!(!summary.iterations[&1].cost_reported, "a charge without a figure of the agent's");
}
