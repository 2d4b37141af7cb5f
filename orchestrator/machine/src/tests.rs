//! The invariants of the loop as properties over random inputs, and as single cases.

mod artefacts;
mod attached;
mod baseline;
mod cases;
mod controls;
mod edges;
mod escalation;
mod explained;
mod failover;
mod figures;
mod hooks;
mod pauses;
mod preview;
mod progress;
mod proved;
mod rate_windows;
mod review;
mod saves;
mod setups;
mod user_budget;

use proptest::prelude::*;
use ralph_orchestrator_contract::{
    CancelReason, Claim, ClaimKind, ClaimSource, ErrorClass, NearMiss, Tokens, Usage, Usd, Verdict,
};

use super::*;

fn claim(kind: ClaimKind, source: ClaimSource) -> Claim {
    Claim { kind, detector: "marker".into(), source, text: "done".into() }
}

fn limits() -> RunLimits {
    RunLimits {
        max_iterations: Some(5),
        max_runtime_ms: Some(1_000_000),
        max_cost_usd: Usd::from_dollars(1.0),
        max_tokens: Some(10_000),
        max_failures: 3,
        max_stagnant: 4,
        max_rejections: 3,
        max_wait_ms: 3_600_000,
        first_reservation: Usd::from_nanos(1_000_000),
        handoff_per_mille: Some(700),
        max_window: [("five_hour".to_owned(), 90), ("weekly".to_owned(), 80)].into(),
        ..RunLimits::default()
    }
}

fn validator(name: &str, required: bool) -> ValidatorInfo {
    ValidatorInfo { name: name.into(), kind: "command".into(), required, runs_check: true }
}

fn fresh() -> RunStarted {
    RunStarted {
        version: 1,
        agent: "fake".into(),
        fallback: Vec::new(),
        workspace: "/w".into(),
        policy: FrozenPolicy {
            validators: vec![validator("tests", true), validator("extra", false)],
            digest: "policy".into(),
            trust_agent: false,
            after_rejection: AfterRejection::Keep,
            when: CompletionTrigger::Claimed,
            code: std::collections::BTreeMap::new(),
        },
        limits: limits(),
        tree: "t0".into(),
        evidence: vec!["old".into()],
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
    }
}

/// With two agents that can take over.
fn with_fallback() -> RunStarted {
    RunStarted { fallback: vec!["spare".into(), "last".into()], ..fresh() }
}

fn verdict(good: bool) -> Verdict {
    if good {
        Verdict::Accepted { summary: "exit 0".into(), evidence: Vec::new() }
    } else {
        Verdict::rejected("exit 1")
    }
}

fn validation(good: bool, tree: &str) -> Validation {
    let named = |name: &str, required, good| ValidatorVerdict {
        validator: name.into(),
        required,
        duration_ms: 1,
        verdict: verdict(good),
        tests: None,
    };
    Validation {
        verdicts: vec![named("tests", true, good), named("extra", false, false)],
        tree_before: tree.into(),
        tree_after: tree.into(),
        tree_left: tree.into(),
        tampering: Vec::new(),
        evidence: Vec::new(),
        task: "task".into(),
        ..Validation::default()
    }
}

fn ended(outcome: IterationOutcome) -> IterationEnd {
    IterationEnd::new(outcome)
}

fn observation(tree: &str) -> Observation {
    Observation {
        tree: tree.into(),
        evidence: evidence(&[("s0", "old")]),
        ..Observation::default()
    }
}

/// Files by their stamps and contents.
fn evidence(files: &[(&str, &str)]) -> ObservedEvidence {
    let contents = files.iter().map(|(stamp, digest)| ((*stamp).into(), (*digest).into()));
    ObservedEvidence { contents: contents.collect(), ..ObservedEvidence::default() }
}

/// A driver without side effects, which keeps the journal and checks the invariants after every step.
#[derive(Clone, Default)]
struct World {
    state: State,
    journal: Vec<Record>,
    last: Vec<Effect>,
    now: Now,
}

impl World {
    fn started() -> Self {
        let mut world = Self::default();
        world.feed(Input::Started(StartOptions { fresh: fresh() }));
        world
    }

    fn feed(&mut self, input: Input) -> &[Effect] {
        self.now.runtime_ms = self.now.runtime_ms.saturating_add(10);
        self.now.unix_ms = self.now.unix_ms.saturating_add(10);
        let before = self.state.clone();
        let known = self.journal.len();
        let (state, effects) = step(self.state.clone(), input, self.now);
        for effect in &effects {
            if let Effect::Append(record) = effect {
                self.journal.push(record.clone());
            }
        }
        self.state = state;
        self.check(&before, known, &effects);
        self.last = effects;
        &self.last
    }

    fn check(&self, before: &State, known: usize, effects: &[Effect]) {
        assert_eq!(State::fold(&self.journal), self.state, "the state is the fold of the journal");
        assert!(self.state.cost() >= before.cost(), "cost fell");
        assert!(self.state.tokens().total() >= before.tokens().total(), "tokens fell");
        assert!(self.state.budget.runtime_ms >= before.budget.runtime_ms, "runtime fell");
        assert!(self.state.validation.rejections >= before.validation.rejections);
        assert!(self.state.iterations - before.iterations <= 1, "an iteration was skipped");
        let limits = &self.state.limits;
        let is_within = limits.max_iterations.is_none_or(|max| self.state.iterations <= max);
        assert!(
            is_within || self.state.iterations == before.iterations,
            "more iterations than allowed"
        );
        let starts = effects.iter().any(|e| matches!(e, Effect::Start(_) | Effect::Prepare(_)));
        assert!(!(starts && self.state.completion().is_some()), "an agent after completion");
        let spent = limits.max_cost_usd.is_some_and(|max| self.state.cost() >= max);
        assert!(!(starts && spent), "overspent");
        controls::check(self, before, &self.journal[known..], starts);
        if before.completion().is_some() {
            assert_eq!(before.latch, self.state.latch, "a completion was changed");
        }
        let new = &self.journal[known..];
        if let Some(at) = new.iter().position(|r| matches!(r, Record::Completed { .. })) {
            let Some(Record::Validated { accepted, verdicts, .. }) =
                at.checked_sub(1).and_then(|i| new.get(i))
            else {
                panic!("completed without validation just before: {new:?}")
            };
            assert!(accepted);
            assert!(verdicts.iter().any(|v| v.validator == "tests" && v.verdict.is_accepted()));
            assert!(matches!(before.latch, Latch::Claimed { .. }), "completed without a claim");
        }
        if new.iter().any(|record| matches!(record, Record::Previewed { .. })) {
            let mut expected = before.clone();
            expected.budget.runtime_ms = self.state.budget.runtime_ms;
            assert_eq!(expected, self.state, "a preview changed more than the time");
        }
        assert!(self.state.notes.len() <= 16, "more notes than an iteration is given");
        self.check_sessions();
        let taken_over = |state: &State| state.agent.fallback.len();
        let escalated =
            new.iter().any(|record| matches!(record, Record::AgentChanged { escalated: true, .. }));
        let resumed = new.iter().any(|record| matches!(record, Record::RunResumed { .. }));
        assert!(
            resumed
                || escalated
                || before.started.is_none()
                || taken_over(&self.state) <= taken_over(before),
            "an agent took over twice"
        );
        if matches!(before.latch, Latch::Claimed { .. }) {
            assert_ne!(self.state.latch, Latch::Open, "a pending claim was lost");
        }
    }

    /// A session that called a tool has used its iteration, unless a person cancelled it for a pause.
    fn check_sessions(&self) {
        let mut last_that_worked = None;
        let mut current = 0;
        for record in &self.journal {
            match record {
                Record::IterationStarted { iteration, .. } => {
                    assert_ne!(Some(*iteration), last_that_worked, "two sessions in one iteration");
                    current = *iteration;
                }
                Record::IterationEnded { outcome, tool_calls: Some(1..), .. }
                    if outcome.cancel_reason() != Some(CancelReason::Pause) =>
                {
                    last_that_worked = Some(current);
                }
                _ => {}
            }
        }
    }

    /// Reports the standing claims, then the observation of the workspace.
    fn observe(&mut self, claims: Vec<Claim>, tree: &str) -> &[Effect] {
        self.feed(Input::ClaimsFound(claims));
        self.feed(Input::Observed(observation(tree)))
    }

    fn finished(&self) -> Option<StopReason> {
        self.last.iter().find_map(|effect| match effect {
            Effect::Finish { reason, .. } => Some(*reason),
            _ => None,
        })
    }

    /// Runs one whole iteration, its observation included.
    fn iterate(&mut self, outcome: IterationOutcome, claims: Vec<Claim>, tree: &str) {
        self.prepare();
        self.end(ended(outcome), claims, observation(tree));
    }

    /// Ends the running agent.
    fn end(&mut self, ended: IterationEnd, claims: Vec<Claim>, observation: Observation) {
        self.feed(Input::ClaimsFound(claims));
        self.feed(Input::IterationEnded(ended));
        self.feed(Input::Observed(observation));
    }

    fn prepare(&mut self) {
        self.prepare_with(LaunchDigests::default());
    }

    fn prepare_with(&mut self, given: LaunchDigests) {
        if self.last.iter().any(|e| matches!(e, Effect::Pause { .. } | Effect::WaitUntil(_))) {
            self.feed(Input::WaitFinished);
        }
        let start = self.last.iter().find_map(|effect| match effect {
            Effect::Prepare(start) => Some(start.clone()),
            _ => None,
        });
        let start = start.unwrap_or_else(|| panic!("expected to prepare, got {:?}", self.last));
        self.feed(Input::Prepared { start, prompt: "p".into(), given });
        assert!(self.last.iter().any(|effect| matches!(effect, Effect::Start(_))));
    }
}

fn failed(class: ErrorClass) -> IterationOutcome {
    IterationOutcome::Failed { class, message: "exit 1".into() }
}

fn deferred(until_ms: Option<u64>) -> IterationOutcome {
    let class = ErrorClass::RateLimited { until_ms };
    IterationOutcome::Deferred { class, message: "429".into() }
}

fn outcomes() -> impl Strategy<Value = IterationOutcome> {
    prop_oneof![
        Just(IterationOutcome::Succeeded),
        Just(failed(ErrorClass::Crashed)),
        Just(failed(ErrorClass::Billing)),
        Just(failed(ErrorClass::Unavailable)),
        Just(IterationOutcome::AgentLimit { message: "turns".into() }),
        Just(IterationOutcome::Interrupted),
        proptest::option::of(0u64..10_000_000).prop_map(deferred),
    ]
}

fn inputs() -> impl Strategy<Value = Input> {
    let usage = (0u64..6_000, 0u64..700_000_000).prop_map(|(tokens, nanos)| Usage {
        tokens: Some(Tokens { output: tokens, ..Tokens::default() }),
        cost: Some(Usd::from_nanos(nanos)),
        estimated: false,
    });
    let outcome = outcomes();
    let kind = prop_oneof![4 => Just(ClaimKind::Complete), 1 => Just(ClaimKind::NeedsHuman)];
    let source =
        prop_oneof![Just(ClaimSource::State), Just(ClaimSource::Message), Just(ClaimSource::Tool)];
    let one = (kind, source).prop_map(|(kind, source)| claim(kind, source));
    let tree = "t[0-3]";
    prop_oneof![
        1 => Just(Input::Started(StartOptions { fresh: fresh() })),
        2 => proptest::collection::vec(one.clone(), 0..2).prop_map(Input::ClaimsFound),
        6 => (tree, "[a-c]", "s[0-9]").prop_map(|(tree, digest, stamp)| {
            let evidence = evidence(&[("s0", "old"), (&stamp, &digest)]);
            Input::Observed(Observation { evidence, ..observation(&tree) })
        }),
        1 => Just(Input::ObservationSkipped),
        1 => (any::<bool>(), tree).prop_map(|(good, tree)| {
            let verdicts = validation(good, &tree).verdicts;
            let evidence = vec!["old".into()];
            Input::Baseline(BaselineCheck {
                verdicts, tree, evidence, ..BaselineCheck::default()
            })
        }),
        1 => one.prop_map(Input::Claimed),
        3 => (any::<bool>(), any::<bool>()).prop_map(|(commits, tree_changed)| {
            Input::Saved(saves::result(commits, tree_changed))
        }),
        2 => usage.clone().prop_map(Input::Usage),
        6 => (outcome, usage, any::<bool>(), proptest::option::of(0u64..2)).prop_map(
            |(outcome, usage, says_done, tool_calls)| {
                let says_all_done = says_done;
                Input::IterationEnded(IterationEnd { usage, says_done, says_all_done, tool_calls, ..ended(outcome) })
            },
        ),
        3 => (any::<bool>(), tree, tree, any::<bool>()).prop_map(|(good, before, after, same)| {
            let mut v = validation(good, &before);
            if !same { v.tree_after = after; }
            Input::Validated(v)
        }),
        4 => Just(Input::WaitFinished),
        6 => Just(Input::Prepared {
            start: StartIteration {
                iteration: 0, attempt: 1, trigger: Trigger::Initial,
                budget: ralph_orchestrator_contract::Budget::default(), reservation: Usd::from_nanos(7),
            },
            prompt: "p".into(),
            given: LaunchDigests::default(),
        }),
        7 => side_inputs(),
        4 => controls::inputs(),
        2 => Just(Input::HoldFinished),
    ]
}

/// Inputs that can come at any time.
fn side_inputs() -> impl Strategy<Value = Input> {
    prop_oneof![
        1 => prop_oneof![
            Just(Timer::IterationTimeout), Just(Timer::Idle), Just(Timer::MaxRuntime), Just(Timer::Clock),
            Just(Timer::Handoff)
        ].prop_map(Input::Timer),
        1 => Just(Input::Signal),
        1 => Just(Input::SetupStarted),
        1 => (any::<bool>(), "t[0-3]").prop_map(|(fails, tree)| {
            let problem = fails.then(|| "exit 1".into());
            Input::SetupFinished(SetupEnd { problem, tree: Some(tree), ..SetupEnd::default() })
        }),
        1 => hooks::inputs(),
        1 => review::inputs(),
        1 => any::<bool>().prop_map(|accepted| Input::Previewed {
            accepted, reasons: if accepted { Vec::new() } else { vec!["exit 1".into()] },
        }),
        1 => proptest::option::of("[a-z ]{0,9}").prop_map(|summary| {
            Input::Explained(summary.map(|summary| ExplainedCompletion {
                summary,
                explanation: serde_json::json!({"runs": 1}),
            }))
        }),
        1 => "[a-z ]{0,9}".prop_map(Input::Note),
        1 => (0u64..200_000).prop_map(|used| {
            Input::Context(ContextUsage { used, window: Some(200_000) })
        }),
        2 => ("five_hour|weekly", 0u64..1_200, proptest::option::of(0u64..5_000)).prop_map(
            |(name, used_per_mille, resets_at_ms)| {
                Input::RateWindow(RateWindow { name, used_per_mille, resets_at_ms })
            }
        ),
        2 => (0u64..5_000).prop_map(|until_ms| Input::UserBudgetReached {
            reason: "budget".into(),
            until_ms,
        }),
        2 => (0u64..5_000).prop_map(|until_ms| {
            Input::ProviderRefused(Refusal { reason: "429".into(), until_ms })
        }),
        1 => Just(Input::AgentUnavailable("not there".into())),
        1 => Just(Input::Warning("w".into())),
    ]
}

/// A random walk in which the driver does what the machine orders, except for stray inputs.
fn walk(inputs: Vec<Input>) -> World {
    walk_at(inputs.into_iter().map(|input| (input, None)))
}

/// The same, with clocks that are set before an input.
fn walk_at(inputs: impl IntoIterator<Item = (Input, Option<Now>)>) -> World {
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: with_fallback() }));
    for (input, now) in inputs {
        world.now = now.unwrap_or(world.now);
        let input = match input {
            Input::Prepared { prompt, given, .. } => {
                let asked = world.last.iter().find_map(|effect| match effect {
                    Effect::Prepare(start) => Some(start.clone()),
                    _ => None,
                });
                match asked {
                    Some(start) => Input::Prepared { start, prompt, given },
                    None => Input::WaitFinished,
                }
            }
            // A validation happens only when the machine asked for it.
            Input::Validated(_)
                if !world.last.iter().any(|effect| matches!(effect, Effect::Validate(_))) =>
            {
                continue;
            }
            other => other,
        };
        if matches!(input, Input::UserBudgetReached { .. } | Input::ProviderRefused(_))
            && !world.last.iter().any(|effect| matches!(effect, Effect::Prepare(_)))
        {
            continue;
        }
        // The driver waits only when ordered to.
        if input == Input::WaitFinished
            && !world.last.iter().any(|e| matches!(e, Effect::Pause { .. } | Effect::WaitUntil(_)))
        {
            continue;
        }
        if input == Input::HoldFinished && !world.last.contains(&Effect::Hold) {
            continue;
        }
        world.feed(input);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_hold_for_any_inputs(inputs in proptest::collection::vec(inputs(), 0..60)) {
        walk(inputs);
    }

    #[test]
    fn each_iteration_is_saved_once(inputs in proptest::collection::vec(inputs(), 0..60)) {
        saves::check_walk(inputs);
    }

    #[test]
    fn clocks_that_jump_change_nothing(
        inputs in proptest::collection::vec((inputs(), any::<u64>(), any::<u64>()), 0..60),
        backwards in any::<bool>(),
    ) {
        let limit = limits().max_wait_ms;
        let mut unix_ms = 0;
        let world = walk_at(inputs.into_iter().map(|(input, runtime_ms, jump)| {
            unix_ms = if backwards { jump % 1_000 } else { jump };
            (input, Some(Now { runtime_ms, unix_ms }))
        }));
        for record in &world.journal {
            if let Record::Waiting { until_ms, .. } = record {
                prop_assert!(backwards || *until_ms > 0);
            }
        }
        for effect in &world.last {
            if let Effect::WaitUntil(until_ms) = effect {
                let wait = until_ms.saturating_sub(world.now.unix_ms);
                prop_assert!(wait <= limit, "a wait of {wait} ms");
            }
        }
    }

    #[test]
    fn a_journal_cut_anywhere_resumes(inputs in proptest::collection::vec(inputs(), 0..40)) {
        let world = walk(inputs);
        for cut in 0..=world.journal.len() {
            let kept = world.journal[..cut].to_vec();
            let state = State::fold(&kept);
            let complete = kept.iter().any(|r| matches!(r, Record::Completed { .. }));
            prop_assert_eq!(state.completion().is_some(), complete, "lost or invented");
            let pending = matches!(state.latch, Latch::Claimed { .. });
            let mut again =
                World { state, journal: kept, last: Vec::new(), now: world.now };
            again.feed(Input::Started(StartOptions { fresh: fresh() }));
            if complete {
                prop_assert_eq!(again.finished(), Some(StopReason::Completed));
                prop_assert_eq!(again.journal.len(), cut, "a complete run records nothing more");
            } else {
                prop_assert!(again.last.contains(&Effect::Observe));
                prop_assert!(again.state.running.is_none());
                again.observe(Vec::new(), "t9");
                let validates = again.last.iter().any(|e| matches!(e, Effect::Validate(_)));
                prop_assert_eq!(validates, pending, "a pending claim is validated after a restart");
            }
        }
    }

    #[test]
    fn records_survive_json(inputs in proptest::collection::vec(inputs(), 0..40)) {
        for record in walk(inputs).journal {
            let json = serde_json::to_string(&record).unwrap();
            prop_assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
        }
    }
}
