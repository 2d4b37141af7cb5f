//! The memory of a run on a real disk, which fails at any operation.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io};

use ralph_orchestrator_config::Env;
use ralph_orchestrator_contract::{Claim, ErrorClass, Verdict};
use ralph_orchestrator_machine::{Completion, Latch, Note, Rejection, ValidatorVerdict};
use ralph_orchestrator_store::{FaultAction, FaultInjector, FileOperation};

use super::*;

const RUN: &str = "the-run";
/// 2024-01-15 10:30:00 UTC.
const AT: i64 = 1_705_314_600;

/// Fails each operation from a certain one on, as if the process had died.
struct DiesAt {
    left: AtomicUsize,
    is_done: bool,
}

impl FaultInjector for DiesAt {
    fn fault_action(&self, _operation: FileOperation, _path: &Path) -> FaultAction {
        let died = || io::Error::other("died");
        let left = self.left.load(Ordering::SeqCst);
        if left > 1 {
            self.left.store(left - 1, Ordering::SeqCst);
            return FaultAction::Proceed;
        }
        let is_first = self.left.swap(0, Ordering::SeqCst) == 1;
        if is_first && self.is_done {
            FaultAction::FailAfterwards(died())
        } else {
            FaultAction::Fail(died())
        }
    }
}

struct World {
    folder: tempfile::TempDir,
    config: Memory,
}

impl World {
    fn new(mode: MemoryMode, format: ProgressFormat) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("w")).unwrap();
        fs::create_dir(folder.path().join("s")).unwrap();
        let config = Memory {
            mode,
            format,
            progress: Some("claude-progress.txt".into()),
            errors: Some("errors.log".into()),
            ..Memory::default()
        };
        Self { folder, config }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn open(&self, disk: Disk) -> Result<RunMemory, StateError> {
        let (layout, workspace) = (Layout::new(self.path("s")), self.path("w"));
        let item = Some("auth".to_owned());
        let redactor = Redactor::default();
        let opened = RunMemory::open(&self.config, disk, &layout, &workspace, redactor, item)?;
        let mut memory = opened.unwrap();
        memory.finish()?;
        Ok(memory)
    }

    /// Performs all that one iteration writes, `agent` in the middle of it, as far as the disk goes. Returns
    /// whether it came to the end.
    fn iterate(&self, disk: Disk, number: u64, agent: impl FnOnce()) -> Result<(), StateError> {
        let mut memory = self.open(disk)?;
        let key = SessionKey { run: RUN, iteration: number, attempt: 1 };
        memory.prepare(key, AT)?;
        memory.begin()?;
        agent();
        memory.guard()?;
        memory.close(RUN, &rejected(number), AT + 60).map(drop)
    }
}

/// The state after an iteration whose claim was rejected.
fn rejected(iterations: u64) -> State {
    let mut state = State { iterations, attempt: 1, ..State::default() };
    state.notes.push(Note { iteration: iterations, text: "next: the tests".into() });
    state.last_outcome = Some(IterationOutcome::Succeeded);
    let verdict = Verdict::Rejected { reasons: vec!["1 of 3 failed".into()] };
    let verdict = ValidatorVerdict {
        validator: "tests".into(),
        required: true,
        duration_ms: 1,
        verdict,
        tests: None,
    };
    state.validation.rejections = 1;
    state.validation.rejection = Some(Rejection {
        reasons: vec!["tests: 1 of 3 failed".into()],
        verdicts: vec![verdict],
        work: Default::default(),
        times: 1,
    });
    state
}

const STARTED: &str = "\
============================================================
[2024-01-15 10:30:00] Session: s001_103000
Action: session_started
Feature: auth

Starting iteration 1 on auth

";
const ENDED: &str = "\
============================================================
[2024-01-15 10:31:00] Session: s001_103000
Action: session_ended
Feature: auth

Accomplished this session:
- nothing is recorded
Checks and tests completed:
- tests: rejected
Issues found or fixed:
- tests: 1 of 3 failed
What next:
- next: the tests
- fix what the checks report
Completion status:
- not complete; claims were rejected 1 times so far

";
const FAILED: &str =
    "[2024-01-15 10:31:00] Iteration 1 (s001_103000): rejected: tests\n  tests: 1 of 3 failed\n\n";

#[test]
fn a_session_has_its_entries_and_the_failures_theirs() {
    let world = World::new(MemoryMode::Full, ProgressFormat::Sessions);
    world.iterate(Disk::default(), 1, || ()).unwrap();
    assert_eq!(world.read("w/claude-progress.txt"), format!("{STARTED}{ENDED}"));
    assert_eq!(world.read("w/errors.log"), FAILED);
}

#[test]
fn an_agent_that_writes_its_own_entry_gets_no_other_one() {
    let world = World::new(MemoryMode::Full, ProgressFormat::Markdown);
    let path = world.path("w/claude-progress.txt");
    world.iterate(Disk::default(), 1, || ()).unwrap();
    let first = "# Progress\n\n## Iteration 1 - next: the tests\n\n- tests: rejected\n\
                 - verdict: not complete; claims were rejected 1 times so far\n\n";
    assert_eq!(world.read("w/claude-progress.txt"), first);
    let own = format!("{first}## Iteration 2 - Added tests\n");
    world.iterate(Disk::default(), 2, || fs::write(&path, &own).unwrap()).unwrap();
    assert_eq!(world.read("w/claude-progress.txt"), own);
}

/// The process dies at each operation on the state directory, before or after it: each entry is there
/// once when the same is done again.
#[test]
fn each_entry_is_written_once_wherever_the_process_dies() {
    for is_done in [false, true] {
        let mut deaths = 0;
        loop {
            let world = World::new(MemoryMode::Full, ProgressFormat::Sessions);
            let left = AtomicUsize::new(deaths + 1);
            let disk = Disk::with_faults(Arc::new(DiesAt { left, is_done }));
            let path = world.path("w/claude-progress.txt");
            let ended = world.iterate(disk, 1, || fs::write(&path, "").unwrap());
            if ended.is_err() {
                // What follows of the iteration: its agent is not started twice.
                let mut memory = world.open(Disk::default()).unwrap();
                let key = SessionKey { run: RUN, iteration: 1, attempt: 1 };
                if memory.state.open.as_ref().is_none_or(|open| !open.is_guarded)
                    && memory.state.last.is_none()
                {
                    memory.prepare(key, AT).unwrap();
                    memory.begin().unwrap();
                }
                memory.guard().unwrap();
                memory.close(RUN, &rejected(1), AT + 60).unwrap();
                memory.close(RUN, &rejected(1), AT + 60).unwrap();
            }
            let what = format!("died at operation {deaths}, {is_done}");
            assert_eq!(world.read("w/claude-progress.txt"), format!("{STARTED}{ENDED}"), "{what}");
            assert_eq!(world.read("w/errors.log"), FAILED, "{what}");
            if ended.is_ok() {
                break;
            }
            deaths += 1;
        }
        assert!(deaths > 20, "{deaths}");
    }
}

#[test]
fn ids_go_on_over_runs_resets_and_beyond_999() {
    let world = World::new(MemoryMode::Full, ProgressFormat::Sessions);
    let id = |run: &str| {
        let mut memory = world.open(Disk::default()).unwrap();
        memory.prepare(SessionKey { run, iteration: 1, attempt: 1 }, AT).unwrap();
        memory.state.open.unwrap().id
    };
    assert_eq!([id("one"), id("one"), id("two")], ["s001_103000", "s001_103000", "s002_103000"]);
    let entry = "[2024-01-15 10:30:00] Session: s999_103000\n";
    fs::write(world.path("w/claude-progress.txt"), entry).unwrap();
    fs::remove_dir_all(world.path("s/memory")).unwrap();
    assert_eq!(id("three"), "s1000_103000");
}

#[test]
fn what_stands_in_the_place_of_the_file_is_put_right_and_never_followed() {
    let world = World::new(MemoryMode::Full, ProgressFormat::Sessions);
    let path = world.path("w/claude-progress.txt");
    let outside = world.path("outside");
    fs::write(&outside, "theirs").unwrap();
    let agents: [&dyn Fn(); 5] = [
        &|| fs::remove_file(&path).unwrap(),
        &|| {
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&outside, &path).unwrap();
        },
        &|| {
            fs::remove_file(&path).unwrap();
            fs::hard_link(&outside, &path).unwrap();
        },
        &|| {
            fs::remove_file(&path).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        },
        &|| {
            fs::remove_file(&path).unwrap();
            fs::create_dir_all(path.join("folder")).unwrap();
        },
    ];
    let mut expected = 0;
    for (number, agent) in (1..).zip(agents) {
        world.iterate(Disk::default(), number, agent).unwrap();
        expected += 2;
        let content = world.read("w/claude-progress.txt");
        assert_eq!(content.matches("\nAction: ").count(), expected, "{number}\n{content}");
        assert!(content.starts_with(STARTED));
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "theirs");
    // Before an agent has worked, it is the user's and refused.
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&outside, &path).unwrap();
    let error = world.open(Disk::default()).unwrap().recover().err().unwrap().to_string();
    assert!(error.contains("memory.progress") && error.contains("is a link"), "{error}");
}

#[test]
fn breadcrumbs_are_kept_from_the_agent() {
    let world = World::new(MemoryMode::Breadcrumbs, ProgressFormat::Sessions);
    let path = world.path("w/claude-progress.txt");
    fs::write(&path, "from before\n").unwrap();
    let agent = || {
        assert!(!path.exists());
        fs::write(&path, "words of the agent\n").unwrap();
    };
    world.iterate(Disk::default(), 1, agent).unwrap();
    assert!(!path.exists());
    let expected = format!("from before\n{STARTED}{ENDED}words of the agent\n");
    assert_eq!(world.read("s/memory/claude-progress.txt"), expected);
}

#[test]
fn old_entries_move_to_the_archive_whole() {
    let mut world = World::new(MemoryMode::Full, ProgressFormat::Sessions);
    world.config.rotate_above = 4096;
    for number in 1..=40 {
        world.iterate(Disk::default(), number, || ()).unwrap();
    }
    let mut names: Vec<_> =
        fs::read_dir(world.path("s/memory")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("archive-"));
    names.sort();
    assert!(names.len() > 3);
    let mut all: String = names.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let live = world.read("w/claude-progress.txt");
    assert!(live.len() <= 4096);
    all.push_str(&live);
    for number in 1..=40 {
        let id = format!("Session: s{number:03}_103000\n");
        assert_eq!(all.matches(&id).count(), 2, "{id}");
    }
    // Killed after the archive was written and before the file was.
    let last = fs::read_to_string(names.last().unwrap()).unwrap();
    fs::write(world.path("w/claude-progress.txt"), format!("{last}{live}")).unwrap();
    world.open(Disk::default()).unwrap();
    assert_eq!(world.read("w/claude-progress.txt"), live);
}

#[test]
fn the_same_state_gives_the_same_bytes() {
    for mode in [MemoryMode::Structured, MemoryMode::Full] {
        let world = World::new(mode, ProgressFormat::Sessions);
        for number in 1..=20 {
            world.iterate(Disk::default(), number, || ()).unwrap();
        }
        let view = || world.open(Disk::default()).unwrap().view();
        let first = view();
        assert_eq!(first, view());
        assert!(first.len() > 500 && first.len() <= 8192, "{}", first.len());
        assert!(first.contains("s020_103000") && !first.contains("s001_103000"), "{first}");
        assert!(first.contains("- tests: 1 of 3 failed\n"), "{first}");
    }
}

#[test]
fn the_completion_of_a_run_that_was_killed_then_is_written_once() {
    let world = World::new(MemoryMode::Full, ProgressFormat::Sessions);
    world.iterate(Disk::default(), 1, || ()).unwrap();
    let mut state = rejected(1);
    state.latch = Latch::Completed(Completion {
        claim: Claim::automatic(),
        iteration: 1,
        tree: String::new(),
        evidence: Vec::new(),
        policy: String::new(),
        task: String::new(),
        validated: true,
        verdicts: Vec::new(),
    });
    for is_unsettled in [true, false] {
        let mut memory = world.open(Disk::default()).unwrap();
        assert_eq!(memory.is_unsettled(RUN), is_unsettled);
        memory.settle(RUN, &state).unwrap();
        assert!(!memory.is_unsettled("another"));
    }
    let progress = world.read("w/claude-progress.txt");
    assert!(progress.starts_with(&format!("{STARTED}{ENDED}")));
    assert_eq!(progress.matches("Action: feature_completed\nFeature: auth\n").count(), 1);
}

#[test]
fn a_session_of_a_run_that_never_went_on_is_ended() {
    let world = World::new(MemoryMode::Full, ProgressFormat::Sessions);
    let mut memory = world.open(Disk::default()).unwrap();
    memory.prepare(SessionKey { run: "gone", iteration: 1, attempt: 1 }, AT).unwrap();
    memory.begin().unwrap();
    drop(memory);
    world.iterate(Disk::default(), 1, || ()).unwrap();
    let progress = world.read("w/claude-progress.txt");
    let actions: Vec<&str> =
        progress.lines().filter_map(|line| line.strip_prefix("Action: ")).collect();
    assert_eq!(
        actions,
        ["session_started", "session_ended", "session_started", "session_ended"],
        "{progress}"
    );
}

#[test]
fn secrets_are_not_written() {
    let world = World::new(MemoryMode::Full, ProgressFormat::Sessions);
    let mut memory = world.open(Disk::default()).unwrap();
    let vars = [("THEIR_API_KEY".to_owned(), "sk-very-secret-value".to_owned())];
    memory.redactor = Redactor::new(&Env::default(), &BTreeMap::from_iter(vars));
    memory.prepare(SessionKey { run: RUN, iteration: 1, attempt: 1 }, AT).unwrap();
    memory.begin().unwrap();
    let mut state = rejected(1);
    let class = ErrorClass::Crashed;
    let message = "no access with sk-very-secret-value".to_owned();
    state.last_outcome = Some(IterationOutcome::Failed { class, message });
    memory.close(RUN, &state, AT).unwrap();
    for name in ["w/claude-progress.txt", "w/errors.log", "s/memory/state.json"] {
        let content = world.read(name);
        assert!(content.contains("no access with ***"), "{name}: {content}");
        assert!(!content.contains("very-secret"), "{name}: {content}");
    }
    assert_eq!(state.latch, Latch::Open);
}
