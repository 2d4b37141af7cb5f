//! Records of a complete run, and how they are written and read.

use ralph_orchestrator_contract::{Claim, ClaimKind, ClaimSource};
use ralph_orchestrator_machine::{
    BaselineMode, FrozenPolicy, PathIdentities, Record, RunLimits, RunStarted, SaveMode, State,
};
use ralph_orchestrator_store::{Layout, OrphanReport, StateError, Store};
use tempfile::TempDir;

pub(crate) const RUN: &str = "0198c0de-0000-7000-8000-000000000001";

pub(crate) fn started() -> Record {
    Record::RunStarted(RunStarted {
        version: 1,
        agent: "fake".into(),
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

pub(crate) fn claimed() -> Record {
    Record::Claimed {
        iteration: 0,
        claim: Claim {
            kind: ClaimKind::Complete,
            detector: "marker".into(),
            source: ClaimSource::State,
            text: "TASK_COMPLETE — \"quoted\" and ünïcode\n".into(),
        },
    }
}

pub(crate) fn validated() -> Record {
    Record::Validated {
        tree_left: None,
        iteration: 0,
        accepted: true,
        tree: "t0".into(),
        verdicts: Vec::new(),
        reasons: Vec::new(),
        runtime_ms: 20,
    }
}

pub(crate) fn completed() -> Record {
    Record::Completed {
        iteration: 0,
        tree: "t0".into(),
        evidence: Vec::new(),
        policy: "p".into(),
        task: "k".into(),
        validated: true,
        runtime_ms: 30,
    }
}

pub(crate) fn records() -> Vec<Record> {
    vec![started(), Record::Clock { runtime_ms: 10 }, claimed(), validated(), completed()]
}

/// Reports no orphans.
pub(crate) fn nothing_left(_run: &str) -> OrphanReport {
    OrphanReport::default()
}

pub(crate) fn layout(folder: &TempDir) -> Layout {
    Layout::new(folder.path().join("state"))
}

/// Writes records the way the driver does: the latch after what changes it.
pub(crate) fn write(layout: &Layout, records: &[Record]) {
    let mut store = Store::open(layout.clone()).unwrap();
    assert!(store.resume().unwrap().is_none());
    store.begin(RUN, &[]).unwrap();
    let mut state = State::default();
    for record in records {
        state.apply(record);
        assert!(!store.append(record).unwrap());
        if matches!(
            record,
            Record::RunStarted(_) | Record::Claimed { .. } | Record::Completed { .. }
        ) {
            store.latch(&state.latch).unwrap();
        }
    }
}

pub(crate) fn resumed(layout: &Layout) -> Result<Option<State>, StateError> {
    Store::open(layout.clone())?.resume().map(|found| found.map(|found| found.state))
}
