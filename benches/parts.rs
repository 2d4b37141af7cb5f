//! Parts of the program against what does the same elsewhere. Prints ratios; asserts nothing about time.
//!
//! `cargo bench --bench parts`. Each figure is the best of several, as everything else is the machine's
//! noise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    missing_docs
)]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ralph_adapter_common::LineParser as _;
use ralph_adapter_common::claude_stream::ClaudeParser;
use ralph_orchestrator_contract::{Tokens, Usage, Usd};
use ralph_orchestrator_machine::{
    BaselineMode, FrozenPolicy, IterationOutcome, PathIdentities, Record, RunLimits, RunStarted,
    SaveMode, Trigger,
};
use ralph_orchestrator_store::{Layout, Store};
use ralph_orchestrator_workspace::TreeHasher;
use serde_json::Value;
use tempfile::TempDir;

const RECORDS: u64 = 100_000;
const FILES: usize = 50_000;
const FILES_IN_A_FOLDER: usize = 100;
const STREAM_BYTES: usize = 16 * 1024 * 1024;

fn main() {
    stream();
    tree();
    resume();
}

fn best(times: usize, mut work: impl FnMut()) -> Duration {
    let one = |_| {
        let began = Instant::now();
        work();
        began.elapsed()
    };
    (0..times).map(one).min().unwrap_or_default()
}

fn row(what: &str, ours: Duration, theirs: Duration) {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("{what:<60} {ours:>10.1?} {theirs:>10.1?}  ratio {ratio:.2}");
}

/// A long session of the claude program: one that was recorded, with its middle many times over.
fn stream() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("adapters/common/tests/transcripts/claude/happy-bypass.jsonl");
    let recorded = fs::read_to_string(folder).unwrap();
    let (init, rest) = recorded.trim_end().split_once('\n').unwrap();
    let (middle, result) = rest.rsplit_once('\n').unwrap();
    let middle = format!("{middle}\n").repeat(STREAM_BYTES / middle.len());
    let text = format!("{init}\n{middle}{result}\n");
    let ours = best(5, || {
        let mut parser = ClaudeParser::new();
        for line in text.lines() {
            black_box(parser.line(line));
        }
    });
    let theirs = best(5, || {
        for line in text.lines() {
            black_box(serde_json::from_str::<Value>(line).unwrap());
        }
    });
    row("16 MiB of claude's stream, against serde_json::Value", ours, theirs);
}

/// An unchanged tree.
fn tree() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for number in 0..FILES {
        let below = root.join(format!("d{}", number / FILES_IN_A_FOLDER));
        if number % FILES_IN_A_FOLDER == 0 {
            fs::create_dir(&below).unwrap();
        }
        fs::write(below.join(format!("f{number}")), format!("content {number}\n")).unwrap();
    }
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=x", "-c", "user.email=x@example.org"])
            .args(args)
            .current_dir(&root)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "all"]);
    git(&["status", "--porcelain"]);
    let mut hasher = TreeHasher::new(root.clone(), Vec::new());
    let first = hasher.digest().unwrap().digest;
    let ours = best(7, || assert_eq!(hasher.digest().unwrap().digest, first));
    let theirs = best(7, || git(&["status", "--porcelain"]));
    row("tree of 50,000 unchanged files, against git status", ours, theirs);
}

/// A long run, gone on with.
fn resume() {
    let folder = TempDir::new().unwrap();
    let layout = Layout::new(folder.path().join("state"));
    let run = "0198c0de-0000-7000-8000-000000000000";
    let mut store = Store::open(layout.clone()).unwrap();
    store.begin(run, &[]).unwrap();
    let mut written = 0;
    let mut append = |record: &Record| {
        written += 1;
        store.append(record).unwrap();
        written < RECORDS
    };
    append(&started());
    let mut iteration = 0;
    while iteration_of(&mut iteration).iter().all(&mut append) {}
    drop(store);
    let bytes = fs::metadata(layout.journal(run)).unwrap().len();
    let ours = best(5, || {
        let mut store = Store::open(layout.clone()).unwrap();
        let found = store.resume().unwrap().unwrap();
        assert!(found.state.iterations > 0);
    });
    let text = fs::read_to_string(layout.journal(run)).unwrap();
    let theirs = best(5, || {
        for line in text.lines() {
            black_box(serde_json::from_str::<Value>(line).unwrap());
        }
    });
    let what = format!("resume after {RECORDS} records ({bytes} bytes), against Value");
    row(&what, ours, theirs);
}

fn started() -> Record {
    Record::RunStarted(RunStarted {
        version: 1,
        agent: "command".into(),
        fallback: Vec::new(),
        workspace: "/w".into(),
        policy: FrozenPolicy::default(),
        limits: RunLimits::default(),
        tree: "t0".into(),
        evidence: Vec::new(),
        evidence_overflowed: false,
        baseline: BaselineMode::Off,
        saves: SaveMode::Off,
        once: false,
        attached: false,
        identities: PathIdentities::default(),
        task: String::new(),
        checkout: false,
        hooks: Default::default(),
        escalation: None,
    })
}

/// What an iteration of an agent that tells its figures leaves in the journal.
fn iteration_of(number: &mut u64) -> Vec<Record> {
    *number += 1;
    let (iteration, runtime_ms) = (*number, *number * 1000);
    let digest = blake3_like(iteration);
    let usage = |n: u64| Usage {
        tokens: Some(Tokens { input: n, output: n, cache_read: n, cache_write: n }),
        cost: Some(Usd::from_nanos(n)),
        estimated: false,
    };
    let mut records = vec![Record::IterationStarted {
        iteration,
        attempt: 1,
        trigger: Trigger::Continued,
        prompt: digest.clone(),
        fingerprint: digest.clone(),
        given: ["agent", "argv", "config", "env", "program", "prompt", "workspace"]
            .map(|field| (field.to_owned(), digest.clone()))
            .into(),
        agent: "command".to_owned(),
        version: None,
        model: None,
        role: None,
        prompt_file: None,
        controls: Vec::new(),
        reservation: Usd::ZERO,
        runtime_ms,
    }];
    records.extend((1..=12).map(|n| Record::Usage { usage: usage(n), runtime_ms }));
    records.push(Record::IterationEnded {
        iteration,
        outcome: IterationOutcome::Succeeded,
        usage: usage(12),
        cost_usd: Usd::from_nanos(12),
        says_done: false,
        says_all_done: false,
        tool_calls: Some(12),
        left_behind: Vec::new(),
        survived: Vec::new(),
        runtime_ms,
    });
    records.push(Record::Observed {
        iteration,
        work: None,
        tree: digest.clone(),
        evidence_written: std::collections::BTreeMap::new(),
        evidence_complete: true,
        evidence: digest,
        near_misses: Vec::new(),
        changes: None,
        runtime_ms,
    });
    records
}

/// As long as a digest, and another for each number.
fn blake3_like(number: u64) -> String {
    format!("{number:064x}")
}
