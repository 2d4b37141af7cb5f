//! Any facts of a run.

use ralph_orchestrator_contract::{
    CancelReason, Claim, ClaimKind, ClaimSource, ErrorClass, EvidenceFile, NearMiss, Tokens, Usage,
    Usd, Verdict,
};
use ralph_orchestrator_machine::{
    BaselineMode, ChangedFile, Changes, Control, ControlOrigin, FileChange, FrozenPolicy,
    HookCommand, HookEvent, IterationOutcome, Limit, LimitChanges, LimitUnit, PathIdentities,
    RateWindow, Record, RunLimits, RunStarted, SaveMode, StopReason, Trigger, ValidatorVerdict,
};
use ralph_orchestrator_test_results::TestCounts;

use crate::bytes::Bytes;

/// The first record of every run here.
pub(crate) fn started(bytes: &mut Bytes<'_>) -> Record {
    Record::RunStarted(RunStarted {
        version: 1,
        agent: bytes.text(),
        fallback: vec![bytes.text()],
        workspace: "/w".into(),
        policy: FrozenPolicy::default(),
        limits: RunLimits::default(),
        tree: "t0".into(),
        evidence: vec![bytes.text()],
        evidence_overflowed: bytes.flag(),
        baseline: BaselineMode::Warn,
        saves: SaveMode::Checkpoint,
        once: bytes.flag(),
        attached: bytes.flag(),
        identities: PathIdentities::default(),
        task: bytes.text(),
        checkout: false,
        hooks: Default::default(),
        escalation: None,
    })
}

pub(crate) fn record(bytes: &mut Bytes<'_>) -> Record {
    let iteration = u64::from(bytes.byte());
    match bytes.byte() % 30 {
        0 => Record::Clock { runtime_ms: bytes.number() },
        1 => Record::Claimed { iteration, claim: claim(bytes) },
        2 => Record::Completed {
            iteration,
            tree: bytes.text(),
            evidence: vec![EvidenceFile {
                path: bytes.text().into(),
                digest: bytes.text(),
                bytes: bytes.number(),
            }],
            policy: bytes.text(),
            task: bytes.text(),
            validated: bytes.flag(),
            runtime_ms: bytes.number(),
        },
        3 => Record::Validated {
            iteration,
            accepted: bytes.flag(),
            tree: bytes.text(),
            tree_left: bytes.flag().then(|| bytes.text()),
            verdicts: vec![ValidatorVerdict {
                validator: bytes.text(),
                required: bytes.flag(),
                duration_ms: bytes.number(),
                verdict: verdict(bytes),
                tests: bytes
                    .flag()
                    .then(|| TestCounts { passed: bytes.number(), ..TestCounts::default() }),
            }],
            reasons: vec![bytes.text()],
            runtime_ms: bytes.number(),
        },
        4 => Record::IterationStarted {
            iteration,
            attempt: u32::from(bytes.byte()),
            trigger: Trigger::Continued,
            prompt: bytes.text(),
            fingerprint: bytes.text(),
            given: [(bytes.text(), bytes.text())].into(),
            agent: bytes.text(),
            version: bytes.flag().then(|| bytes.text()),
            model: bytes.flag().then(|| bytes.text()),
            role: bytes.flag().then(|| bytes.text()),
            prompt_file: bytes.flag().then(|| bytes.text()),
            controls: vec![bytes.text()],
            reservation: money(bytes),
            runtime_ms: bytes.number(),
        },
        5 => Record::Usage { usage: usage(bytes), runtime_ms: bytes.number() },
        6 => Record::IterationEnded {
            iteration,
            outcome: outcome(bytes),
            usage: usage(bytes),
            cost_usd: money(bytes),
            says_done: bytes.flag(),
            says_all_done: bytes.flag(),
            tool_calls: bytes.flag().then_some(1),
            left_behind: vec![bytes.text()],
            survived: vec![(bytes.text(), 2, bytes.number()).into()],
            runtime_ms: bytes.number(),
        },
        7 => Record::Observed {
            iteration,
            tree: bytes.text(),
            work: bytes.flag().then(|| bytes.text()),
            evidence_written: [(bytes.text(), bytes.text())].into(),
            evidence_complete: bytes.flag(),
            evidence: bytes.text(),
            near_misses: vec![NearMiss {
                detector: bytes.text(),
                text: bytes.text(),
                line: bytes.number(),
                hint: bytes.text(),
            }],
            changes: bytes.flag().then(|| Changes {
                files: bytes.number(),
                paths: vec![ChangedFile {
                    path: bytes.text(),
                    change: FileChange::Removed,
                    lines_added: None,
                    lines_removed: Some(bytes.number()),
                }],
                ..Changes::default()
            }),
            runtime_ms: bytes.number(),
        },
        8 => Record::MarkerRemoved { detector: bytes.text() },
        9 => Record::Cancelling { reason: reason(bytes), is_hangup: bytes.flag() },
        10 => Record::Waiting {
            until_ms: bytes.number(),
            reason: bytes.text(),
            wait_ms: bytes.number(),
        },
        11 => Record::Stopped {
            reason: StopReason::NeedsHuman,
            message: bytes.text(),
            runtime_ms: bytes.number(),
        },
        12 => Record::RunResumed {
            agent: bytes.text(),
            fallback: vec![bytes.text()],
            limits: RunLimits { max_cost_usd: usage(bytes).cost, ..RunLimits::default() },
            baseline: BaselineMode::Warn,
            saves: SaveMode::Iteration,
            once: bytes.flag(),
            attached: bytes.flag(),
            identities: PathIdentities::default(),
            hooks: Default::default(),
            escalation: None,
        },
        13 => Record::Context { used: bytes.number(), window: bytes.flag().then_some(200_000) },
        28 => Record::RateWindow(RateWindow {
            name: "weekly".to_owned(),
            used_per_mille: bytes.number(),
            resets_at_ms: bytes.flag().then_some(bytes.number()),
        }),
        14 => Record::Note { iteration, text: bytes.text() },
        15 => Record::Previewed {
            iteration,
            accepted: bytes.flag(),
            reasons: vec![bytes.text()],
            runtime_ms: bytes.number(),
        },
        16 => Record::AgentChanged {
            from: bytes.text(),
            to: bytes.text(),
            reason: bytes.text(),
            escalated: bytes.flag(),
        },
        17 => Record::SetupStarted { iteration },
        18 => Record::SetupFinished {
            iteration,
            problem: bytes.flag().then(|| bytes.text()),
            tree: bytes.flag().then(|| bytes.text()),
            runtime_ms: bytes.number(),
        },
        19 => Record::ControlReceived {
            origin: origin(bytes),
            control: control(bytes),
            refused: bytes.flag().then(|| bytes.text()),
        },
        20 => Record::Answered { text: bytes.text(), origin: Some(origin(bytes)) },
        21 => Record::Paused { runtime_ms: bytes.number() },
        24 => Record::Explained {
            summary: bytes.text(),
            explanation: serde_json::json!({"parts": [bytes.text()], "runs": bytes.number()}),
            runtime_ms: bytes.number(),
        },
        25 => Record::HookFinished {
            event: HookEvent::ALL[usize::from(bytes.byte()) % HookEvent::ALL.len()],
            iteration,
            commands: vec![HookCommand {
                command: bytes.text(),
                attempts: u32::from(bytes.byte()),
                problem: bytes.flag().then(|| bytes.text()),
                output: bytes.text(),
            }],
            runtime_ms: bytes.number(),
        },
        26 => Record::ReviewStarted {
            iteration,
            validator: bytes.text(),
            agent: bytes.text(),
            reservation: money(bytes),
            runtime_ms: bytes.number(),
        },
        27 => Record::ReviewEnded {
            iteration,
            validator: bytes.text(),
            agent: bytes.text(),
            usage: usage(bytes),
            cost_usd: money(bytes),
            runtime_ms: bytes.number(),
        },
        22 => Record::GuidanceDelivered { iteration, ids: vec![bytes.text()] },
        _ => Record::Warning { message: bytes.text() },
    }
}

fn origin(bytes: &mut Bytes<'_>) -> ControlOrigin {
    ControlOrigin {
        id: bytes.text(),
        user: bytes.text(),
        program: bytes.text(),
        sent_ms: bytes.number(),
    }
}

pub(crate) fn control(bytes: &mut Bytes<'_>) -> Control {
    match bytes.byte() % 6 {
        0 => Control::Steer { text: bytes.text() },
        1 => Control::Answer { text: bytes.text() },
        2 => Control::Pause { now: bytes.flag() },
        3 => Control::Resume,
        4 => Control::Limits(limit_changes(bytes)),
        _ => Control::Stop,
    }
}

fn limit_changes(bytes: &mut Bytes<'_>) -> LimitChanges {
    let changes = LimitChanges::new(bytes.flag());
    Limit::budgets().fold(changes, |changes, (limit, _)| {
        if !bytes.flag() {
            return changes;
        }
        let amount = match limit.row().unit {
            LimitUnit::Money => money(bytes).nanos(),
            LimitUnit::Count | LimitUnit::Duration => bytes.number(),
        };
        changes.with(limit, bytes.flag().then(|| limit.row().unit.to_value(amount)))
    })
}

pub(crate) fn claim(bytes: &mut Bytes<'_>) -> Claim {
    Claim {
        kind: if bytes.byte() % 4 == 3 { ClaimKind::NeedsHuman } else { ClaimKind::Complete },
        detector: if bytes.flag() { "promise" } else { "marker" }.into(),
        source: [ClaimSource::State, ClaimSource::Message, ClaimSource::Tool]
            [usize::from(bytes.byte() % 3)],
        text: bytes.text(),
    }
}

pub(crate) fn verdict(bytes: &mut Bytes<'_>) -> Verdict {
    match bytes.byte() % 4 {
        0 | 1 => Verdict::Accepted { summary: bytes.text(), evidence: Vec::new() },
        2 => Verdict::rejected(bytes.text()),
        _ => Verdict::Error { message: bytes.text() },
    }
}

pub(crate) fn usage(bytes: &mut Bytes<'_>) -> Usage {
    let known = bytes.byte();
    Usage {
        tokens: (known & 1 == 1).then(|| Tokens {
            input: bytes.number(),
            output: bytes.number(),
            cache_read: bytes.number(),
            cache_write: bytes.number(),
        }),
        cost: (known & 2 == 2).then(|| money(bytes)),
        estimated: known & 4 == 4,
    }
}

/// Only amounts that a figure in dollars says exactly: that is how they are written.
pub(crate) fn money(bytes: &mut Bytes<'_>) -> Usd {
    Usd::from_nanos(bytes.number() % (1 << 50))
}

pub(crate) fn outcome(bytes: &mut Bytes<'_>) -> IterationOutcome {
    let class = match bytes.byte() % 4 {
        0 => ErrorClass::Crashed,
        1 => ErrorClass::Billing,
        2 => ErrorClass::Unauthenticated,
        _ => ErrorClass::Unavailable,
    };
    match bytes.byte() % 8 {
        0..=2 => IterationOutcome::Succeeded,
        3 | 4 => IterationOutcome::Failed { class, message: bytes.text() },
        5 => {
            let until_ms = bytes.flag().then(|| bytes.number());
            let class = ErrorClass::RateLimited { until_ms };
            IterationOutcome::Deferred { class, message: bytes.text() }
        }
        6 => IterationOutcome::AgentLimit { message: bytes.text() },
        _ => IterationOutcome::Interrupted,
    }
}

pub(crate) fn reason(bytes: &mut Bytes<'_>) -> CancelReason {
    [CancelReason::Timeout, CancelReason::Idle, CancelReason::MaxCost, CancelReason::Signal]
        [usize::from(bytes.byte() % 4)]
}
