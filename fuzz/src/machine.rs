//! The state machine under any inputs: the rules of the loop.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{Claim, Tokens, Usd};
use ralph_orchestrator_machine::{
    AfterRejection, BaselineCheck, BaselineMode, CompletionTrigger, ContextUsage, ControlOrigin,
    Effect, ExplainedCompletion, FrozenPolicy, Input, IterationEnd, Latch, LaunchDigests, Now,
    Observation, ObservedEvidence, PathIdentities, RateWindow, ReceivedControl, Record, RunLimits,
    RunStarted, SaveMode, StartOptions, State, StopReason, Timer, Validation, ValidatorInfo,
    ValidatorVerdict, step,
};

use crate::bytes::Bytes;
use crate::records;

const MOST_ITERATIONS: u64 = 9;
const MOST_COST: Usd = Usd::from_nanos(1_000_000_000);

/// Feeds inputs made of the bytes, then starts again from every beginning of the journal.
pub fn check(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let fresh = fresh(&mut bytes);
    let mut world = World { fresh, ..World::default() };
    world.start();
    for _ in 0..64 {
        if bytes.is_empty() {
            break;
        }
        let input = world.input(&mut bytes);
        world.feed(input);
    }
    for cut in 0..=world.journal.len() {
        world.resume(cut);
    }
}

fn fresh(bytes: &mut Bytes<'_>) -> RunStarted {
    let bits = bytes.byte();
    let validator = |name: &str, required| ValidatorInfo {
        name: name.into(),
        kind: "command".into(),
        required,
        runs_check: true,
    };
    RunStarted {
        version: 1,
        agent: "fake".into(),
        fallback: if bits & 64 == 0 { Vec::new() } else { vec!["spare".into(), "last".into()] },
        workspace: "/w".into(),
        policy: FrozenPolicy {
            validators: vec![validator("tests", bits & 1 == 0), validator("extra", false)],
            digest: "policy".into(),
            trust_agent: bits & 2 != 0,
            after_rejection: if bits & 4 == 0 {
                AfterRejection::Keep
            } else {
                AfterRejection::RequireNewClaim
            },
            when: if bits & 128 == 0 {
                CompletionTrigger::Claimed
            } else {
                CompletionTrigger::Proved
            },
            code: BTreeMap::new(),
        },
        limits: RunLimits {
            max_iterations: Some(MOST_ITERATIONS),
            max_runtime_ms: (bits & 8 != 0).then_some(100_000),
            max_cost_usd: Some(MOST_COST),
            max_tokens: (bits & 16 != 0).then_some(10_000),
            max_failures: 3,
            max_stagnant: 4,
            max_rejections: 3,
            max_wait_ms: 3_600_000,
            max_window: [("weekly".to_owned(), 80)].into(),
            first_reservation: Usd::from_nanos(1_000_000),
            handoff_per_mille: Some(700),
            ..RunLimits::default()
        },
        tree: "t0".into(),
        evidence: vec!["old".into()],
        evidence_overflowed: bits & 128 != 0,
        baseline: [BaselineMode::Off, BaselineMode::Warn, BaselineMode::MustFail]
            [usize::from(bytes.byte() % 3)],
        once: bits & 32 != 0,
        attached: bits & 96 == 96,
        saves: SaveMode::Off,
        identities: PathIdentities::default(),
        task: String::new(),
        checkout: false,
        hooks: Default::default(),
        escalation: None,
    }
}

/// A driver without side effects, which does what the machine orders, except for stray inputs.
#[derive(Clone)]
struct World {
    fresh: RunStarted,
    state: State,
    journal: Vec<Record>,
    last: Vec<Effect>,
    now: Now,
}

impl Default for World {
    fn default() -> Self {
        Self {
            fresh: fresh(&mut Bytes::new(&[])),
            state: State::default(),
            journal: Vec::new(),
            last: Vec::new(),
            now: Now::default(),
        }
    }
}

impl World {
    fn start(&mut self) {
        self.feed(Input::Started(StartOptions { fresh: self.fresh.clone() }));
    }

    fn input(&self, bytes: &mut Bytes<'_>) -> Input {
        let ordered = |wanted: fn(&Effect) -> bool| self.last.iter().any(wanted);
        let stray = bytes.byte();
        // Mostly the answer to what was ordered.
        if !stray.is_multiple_of(8) {
            if ordered(|effect| matches!(effect, Effect::Observe)) {
                // The detectors come first.
                return if bytes.flag() {
                    Input::ClaimsFound(claims(bytes))
                } else {
                    Input::Observed(observation(bytes))
                };
            }
            if ordered(|effect| matches!(effect, Effect::CheckBaseline)) {
                return Input::Baseline(baseline(bytes));
            }
            if ordered(|effect| matches!(effect, Effect::Validate(_))) {
                return Input::Validated(self.validation(bytes));
            }
            if ordered(|effect| matches!(effect, Effect::Explain)) {
                return explained(bytes);
            }
            if ordered(|effect| matches!(effect, Effect::Pause { .. } | Effect::WaitUntil(_))) {
                return Input::WaitFinished;
            }
            if ordered(|effect| matches!(effect, Effect::Hold)) {
                return if bytes.flag() { self.control(bytes) } else { Input::HoldFinished };
            }
            if let Some(prepared) = self.prepared() {
                return prepared;
            }
        }
        match bytes.byte() % 22 {
            0 => Input::Observed(observation(bytes)),
            1 => Input::Claimed(records::claim(bytes)),
            2 | 3 => Input::Usage(records::usage(bytes)),
            13 => Input::ClaimsFound(claims(bytes)),
            14 => Input::ObservationSkipped,
            15 => Input::Baseline(baseline(bytes)),
            4 | 5 => Input::IterationEnded(IterationEnd {
                outcome: records::outcome(bytes),
                usage: records::usage(bytes),
                promises_cost: bytes.flag(),
                says_done: bytes.flag(),
                says_all_done: bytes.flag(),
                tool_calls: bytes.flag().then_some(0),
                left_behind: Vec::new(),
                survived: Vec::new(),
            }),
            6 => Input::Timer(
                [Timer::IterationTimeout, Timer::Idle, Timer::MaxRuntime, Timer::Clock]
                    [usize::from(bytes.byte() % 4)],
            ),
            7 => Input::Signal,
            8 => Input::Warning(bytes.text()),
            9 => Input::Note(bytes.text()),
            10 => {
                Input::Context(ContextUsage { used: bytes.number(), window: Some(bytes.number()) })
            }
            21 => Input::RateWindow(RateWindow {
                name: "weekly".to_owned(),
                used_per_mille: bytes.number(),
                resets_at_ms: bytes.flag().then_some(bytes.number()),
            }),
            11 => Input::Previewed { accepted: bytes.flag(), reasons: vec![bytes.text()] },
            12 => Input::AgentUnavailable(bytes.text()),
            19 => explained(bytes),
            16 | 17 => self.control(bytes),
            18 => Input::GuidanceTaken(vec![format!("c{}", bytes.byte() % 32)]),
            _ => Input::Started(StartOptions { fresh: self.fresh.clone() }),
        }
    }

    /// Some ids come twice.
    fn control(&self, bytes: &mut Bytes<'_>) -> Input {
        let origin = ControlOrigin {
            id: format!("c{}", bytes.byte() % 32),
            user: bytes.text(),
            program: String::new(),
            sent_ms: self.now.unix_ms,
        };
        Input::Control(ReceivedControl { origin, control: records::control(bytes) })
    }

    fn prepared(&self) -> Option<Input> {
        self.last.iter().find_map(|effect| match effect {
            Effect::Prepare(start) => Some(Input::Prepared {
                start: start.clone(),
                prompt: "p".into(),
                given: LaunchDigests::default(),
            }),
            _ => None,
        })
    }

    fn validation(&self, bytes: &mut Bytes<'_>) -> Validation {
        let verdicts = ["tests", "extra"]
            .iter()
            .take(usize::from(bytes.byte() % 4))
            .map(|name| ValidatorVerdict {
                validator: (*name).into(),
                required: *name == "tests",
                duration_ms: 1,
                verdict: records::verdict(bytes),
                tests: None,
            })
            .collect();
        let tree = |other: u8| {
            if other % 4 == 3 { "moved".into() } else { self.state.workspace.tree.clone() }
        };
        Validation {
            verdicts,
            tree_before: tree(bytes.byte()),
            tree_after: tree(bytes.byte()),
            tree_left: tree(bytes.byte()),
            artefacts: BTreeMap::from([("tests".into(), vec![bytes.text()])]),
            warnings: Vec::new(),
            tampering: if bytes.byte() % 8 == 7 { vec![bytes.text()] } else { Vec::new() },
            evidence: Vec::new(),
            task: "task".into(),
            is_explained: bytes.flag(),
            interrupted: bytes.byte() % 8 == 7,
            out_of_time: bytes.byte() % 8 == 7,
            hopeless: Vec::new(),
        }
    }

    fn feed(&mut self, input: Input) {
        self.now.runtime_ms += 10;
        self.now.unix_ms += 10;
        let ordered = std::mem::take(&mut self.last);
        let (state, effects) = step(self.state.clone(), input, self.now);
        let before = std::mem::replace(&mut self.state, state);
        let known = self.journal.len();
        self.journal.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Append(record) => Some(record.clone()),
            _ => None,
        }));
        self.assert_rules(&before, &self.journal[known..], &effects);
        // A stray input takes nothing back that was ordered for.
        let takes_back = |effect: &Effect| !matches!(effect, Effect::Append(_) | Effect::Latch);
        self.last = if !effects.iter().any(takes_back) { ordered } else { effects };
    }

    fn assert_rules(&self, before: &State, new: &[Record], effects: &[Effect]) {
        let state = &self.state;
        assert_eq!(State::fold(&self.journal), *state, "the state is the fold of the journal");
        assert!(state.cost() >= before.cost(), "cost fell");
        let figures = |Tokens { input, output, cache_read, cache_write }: Tokens| {
            [input, output, cache_read, cache_write]
        };
        let (old, sum) = (figures(before.tokens()), figures(state.tokens()));
        assert!(old.iter().zip(sum).all(|(old, sum)| sum >= *old), "tokens fell");
        assert!(state.budget.runtime_ms >= before.budget.runtime_ms, "runtime fell");
        assert!(state.iterations - before.iterations <= 1, "an iteration was skipped");
        let within = state.limits.max_iterations.is_none_or(|max| state.iterations <= max);
        assert!(within || state.iterations == before.iterations, "more iterations than allowed");
        let starts = effects.iter().any(|e| matches!(e, Effect::Start(_) | Effect::Prepare(_)));
        assert!(!(starts && state.completion().is_some()), "an agent after completion");
        assert!(!(starts && state.process.stop_requested), "an agent after a signal");
        let spent = state.limits.max_cost_usd.is_some_and(|max| state.cost() >= max);
        assert!(!(starts && spent), "overspent");
        assert!(!(starts && state.is_pause_requested()), "an agent in a pause");
        if before.completion().is_some() {
            assert_eq!(before.latch, state.latch, "a completion was changed");
            let is_said = |record: &Record| match record {
                Record::Warning { .. } => true,
                Record::Explained { .. } => before.explained.is_none(),
                _ => false,
            };
            assert!(new.iter().all(is_said), "{new:?}");
        }
        let completed = new.iter().position(|record| matches!(record, Record::Completed { .. }));
        assert_eq!(
            completed.is_some(),
            state.completion().is_some() && before.completion().is_none()
        );
        if let Some(at) = completed {
            self.assert_justified(before, &new[..at]);
        }
        let requires_new_claim =
            self.fresh.policy.after_rejection == AfterRejection::RequireNewClaim;
        if matches!(before.latch, Latch::Claimed { .. }) && !requires_new_claim {
            assert_ne!(state.latch, Latch::Open, "a pending claim was lost");
        }
    }

    fn assert_justified(&self, before: &State, new: &[Record]) {
        let Some(Record::Validated { accepted: true, verdicts, reasons, .. }) = new.last() else {
            panic!("completed without an accepting validation just before: {new:?}")
        };
        assert!(matches!(before.latch, Latch::Claimed { .. }), "completed without a claim");
        assert!(reasons.is_empty());
        let policy = &self.fresh.policy;
        assert!(policy.validates() || policy.trust_agent, "completed without any validator");
        for validator in policy.validators.iter().filter(|validator| validator.required) {
            let accepted =
                |v: &ValidatorVerdict| v.validator == validator.name && v.verdict.is_accepted();
            assert!(verdicts.iter().any(accepted), "completed without {}", validator.name);
        }
    }

    /// The orchestrator was killed after so many records and is started again.
    fn resume(&self, cut: usize) {
        let journal = self.journal[..cut].to_vec();
        let state = State::fold(&journal);
        let complete = journal.iter().any(|record| matches!(record, Record::Completed { .. }));
        assert_eq!(state.completion().is_some(), complete, "lost or invented");
        let pending = matches!(state.latch, Latch::Claimed { .. });
        let mut again = Self { state, journal, last: Vec::new(), ..self.clone() };
        again.start();
        if complete {
            let finish = again.last.iter().find_map(|effect| match effect {
                Effect::Finish { reason, .. } => Some(*reason),
                _ => None,
            });
            assert_eq!(finish, Some(StopReason::Completed));
            assert_eq!(again.journal.len(), cut, "a complete run records nothing more");
            return;
        }
        assert!(again.state.running.is_none() && again.last.contains(&Effect::Observe));
        again.feed(Input::Observed(Observation { tree: "t9".into(), ..Observation::default() }));
        let validates = again.last.iter().any(|effect| matches!(effect, Effect::Validate(_)));
        // So is work that was changed where no claim is needed.
        let proves = again.state.needs_no_claim() && again.state.iterations > 0;
        // The work of an attached session is an iteration first, whatever was claimed before.
        let expected = (pending || proves) && !again.state.process.attached;
        assert_eq!(validates, expected, "a pending claim is validated after a restart");
    }
}

fn explained(bytes: &mut Bytes<'_>) -> Input {
    Input::Explained(bytes.flag().then(|| ExplainedCompletion {
        summary: bytes.text(),
        explanation: serde_json::json!({"runs": bytes.number()}),
    }))
}

fn observation(bytes: &mut Bytes<'_>) -> Observation {
    let tree = format!("t{}", bytes.byte() % 4);
    let file = |bytes: &mut Bytes<'_>| {
        (
            format!("s{}", bytes.byte() % 8),
            ["old", "new", "newer"][usize::from(bytes.byte() % 3)].into(),
        )
    };
    let evidence = ObservedEvidence {
        contents: (0..bytes.byte() % 3).map(|_| file(bytes)).collect(),
        overflowed: bytes.byte() % 16 == 15,
        skipped_large: false,
    };
    Observation { tree, evidence, ..Observation::default() }
}

fn claims(bytes: &mut Bytes<'_>) -> Vec<Claim> {
    (0..bytes.byte() % 3).map(|_| records::claim(bytes)).collect()
}

fn baseline(bytes: &mut Bytes<'_>) -> BaselineCheck {
    BaselineCheck {
        verdicts: vec![ValidatorVerdict {
            validator: "tests".into(),
            required: true,
            duration_ms: 1,
            verdict: records::verdict(bytes),
            tests: None,
        }],
        tree: format!("t{}", bytes.byte() % 4),
        artefacts: BTreeMap::new(),
        warnings: Vec::new(),
        evidence: vec!["old".into()],
        interrupted: bytes.byte() % 8 == 7,
        out_of_time: bytes.byte() % 8 == 7,
        unable: (0..bytes.byte() % 2).map(|_| "`tests`: no runner".to_owned()).collect(),
        hopeless: (0..bytes.byte() % 8 / 7).map(|_| "a server writes".to_owned()).collect(),
    }
}
