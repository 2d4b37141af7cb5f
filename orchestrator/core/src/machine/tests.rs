//! The rules of the loop as properties over random inputs, and as single cases.

use proptest::prelude::*;

use super::*;
use crate::contract::{
    CancelReason, Claim, ClaimKind, ClaimSource, NearMiss, Tokens, Usage, Usd, Verdict,
};

fn claim(kind: ClaimKind, source: ClaimSource) -> Claim {
    Claim { kind, detector: "marker".into(), source, text: "done".into() }
}

fn limits() -> Limits {
    Limits {
        max_iterations: Some(5),
        max_runtime_ms: Some(1_000_000),
        max_cost_usd: Usd::from_dollars(1.0),
        max_tokens: Some(10_000),
        max_failures: 3,
        max_stagnant: 4,
        max_rejections: 3,
        max_wait_ms: 3_600_000,
        first_reservation: Usd::from_nanos(1_000_000),
    }
}

fn fresh() -> RunStarted {
    RunStarted {
        version: 1,
        agent: "fake".into(),
        workspace: "/w".into(),
        policy: Policy {
            validators: vec![
                ValidatorInfo { name: "tests".into(), kind: "command".into(), required: true },
                ValidatorInfo { name: "extra".into(), kind: "command".into(), required: false },
            ],
            digest: "policy".into(),
            trust_agent: false,
            after_rejection: AfterRejection::Keep,
        },
        limits: limits(),
        tree: "t0".into(),
        evidence: vec!["old".into()],
        once: false,
    }
}

fn verdict(good: bool) -> Verdict {
    if good {
        Verdict::Accepted { summary: "exit 0".into(), evidence: Vec::new() }
    } else {
        Verdict::rejected("exit 1")
    }
}

fn validation(good: bool, tree: &str) -> Validation {
    let named = |name: &str, required, good| NamedVerdict {
        validator: name.into(),
        required,
        duration_ms: 1,
        verdict: verdict(good),
    };
    Validation {
        verdicts: vec![named("tests", true, good), named("extra", false, false)],
        tree_before: tree.into(),
        tree_after: tree.into(),
        evidence: Vec::new(),
        task: "task".into(),
        interrupted: false,
    }
}

fn ended(outcome: Outcome) -> Ended {
    Ended { outcome, usage: Usage::default(), says_done: false, left_behind: Vec::new() }
}

fn look(claims: Vec<Claim>, tree: &str) -> Look {
    Look { claims, near_misses: Vec::new(), tree: tree.into(), evidence: vec!["old".into()] }
}

/// A driver without a world: keeps the journal and checks the rules after every step.
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
        assert!(self.state.runtime_ms >= before.runtime_ms, "runtime fell");
        assert!(self.state.rejections >= before.rejections);
        assert!(self.state.iterations - before.iterations <= 1, "an iteration was skipped");
        assert!(self.state.iterations <= 5, "more iterations than allowed");
        let starts = effects.iter().any(|e| matches!(e, Effect::Start(_) | Effect::Prepare(_)));
        assert!(!(starts && self.state.completion().is_some()), "an agent after completion");
        assert!(!(starts && self.state.cost() >= Usd::from_dollars(1.0).unwrap()), "overspent");
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
        if matches!(before.latch, Latch::Claimed { .. }) {
            assert_ne!(self.state.latch, Latch::Open, "a pending claim was lost");
        }
    }

    fn finished(&self) -> Option<StopReason> {
        self.last.iter().find_map(|effect| match effect {
            Effect::Finish { reason, .. } => Some(*reason),
            _ => None,
        })
    }

    /// One whole iteration up to what comes after its look.
    fn iterate(&mut self, outcome: Outcome, claims: Vec<Claim>, tree: &str) {
        if self.last.iter().any(|e| matches!(e, Effect::Pause { .. } | Effect::WaitUntil(_))) {
            self.feed(Input::Rested);
        }
        self.prepare();
        self.feed(Input::Ended(ended(outcome)));
        self.feed(Input::Looked(look(claims, tree)));
    }

    fn prepare(&mut self) {
        let start = self.last.iter().find_map(|effect| match effect {
            Effect::Prepare(start) => Some(start.clone()),
            _ => None,
        });
        let start = start.unwrap_or_else(|| panic!("expected to prepare, got {:?}", self.last));
        self.feed(Input::Prepared { start, prompt: "p".into(), fingerprint: "f".into() });
        assert!(self.last.iter().any(|effect| matches!(effect, Effect::Start(_))));
    }
}

fn inputs() -> impl Strategy<Value = Input> {
    let usage = (0u64..6_000, 0u64..700_000_000).prop_map(|(tokens, nanos)| Usage {
        tokens: Some(Tokens { output: tokens, ..Tokens::default() }),
        cost: Some(Usd::from_nanos(nanos)),
        estimated: false,
    });
    let outcome = prop_oneof![
        Just(Outcome::Succeeded),
        Just(Outcome::Failed { class: "crashed".into(), message: "exit 1".into() }),
        Just(Outcome::Failed { class: "billing".into(), message: "no credit".into() }),
        Just(Outcome::Bounded { message: "turns".into() }),
        Just(Outcome::Lost),
        proptest::option::of(0u64..10_000_000).prop_map(|until_ms| Outcome::Deferred {
            class: "overloaded".into(),
            message: "529".into(),
            until_ms,
        }),
    ];
    let kind = prop_oneof![4 => Just(ClaimKind::Complete), 1 => Just(ClaimKind::NeedsHuman)];
    let source = prop_oneof![Just(ClaimSource::State), Just(ClaimSource::Message)];
    let one = (kind, source).prop_map(|(kind, source)| claim(kind, source));
    let tree = "t[0-3]";
    prop_oneof![
        1 => Just(Input::Started(StartOptions { fresh: fresh() })),
        6 => (proptest::collection::vec(one.clone(), 0..2), tree)
            .prop_map(|(claims, tree)| Input::Looked(look(claims, &tree))),
        1 => one.prop_map(Input::ClaimSeen),
        2 => usage.clone().prop_map(Input::Used),
        6 => (outcome, usage, any::<bool>()).prop_map(|(outcome, usage, says_done)| {
            Input::Ended(Ended { outcome, usage, says_done, left_behind: Vec::new() })
        }),
        3 => (any::<bool>(), tree, tree, any::<bool>()).prop_map(|(good, before, after, same)| {
            let mut v = validation(good, &before);
            if !same { v.tree_after = after; }
            Input::Validated(v)
        }),
        4 => Just(Input::Rested),
        6 => Just(Input::Prepared {
            start: StartIteration {
                iteration: 0, attempt: 1, trigger: Trigger::Initial,
                budget: crate::contract::Budget::default(), reservation: Usd::from_nanos(7),
            },
            prompt: "p".into(),
            fingerprint: "f".into(),
        }),
        1 => prop_oneof![
            Just(Timer::IterationTimeout), Just(Timer::Idle), Just(Timer::MaxRuntime), Just(Timer::Tick)
        ].prop_map(Input::Timer),
        1 => Just(Input::Signal),
        1 => Just(Input::Warn("w".into())),
    ]
}

/// A random walk in which the driver keeps to what the machine asked for, but for stray inputs.
fn walk(inputs: Vec<Input>) -> World {
    walk_at(inputs.into_iter().map(|input| (input, None)))
}

/// The same, with clocks that are set before an input.
fn walk_at(inputs: impl IntoIterator<Item = (Input, Option<Now>)>) -> World {
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    for (input, now) in inputs {
        world.now = now.unwrap_or(world.now);
        let input = match input {
            Input::Prepared { prompt, fingerprint, .. } => {
                let asked = world.last.iter().find_map(|effect| match effect {
                    Effect::Prepare(start) => Some(start.clone()),
                    _ => None,
                });
                match asked {
                    Some(start) => Input::Prepared { start, prompt, fingerprint },
                    None => Input::Rested,
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
        // The driver rests only when told to.
        if input == Input::Rested
            && !world.last.iter().any(|e| matches!(e, Effect::Pause { .. } | Effect::WaitUntil(_)))
        {
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
                prop_assert!(again.last.contains(&Effect::Look));
                prop_assert!(again.state.current.is_none());
                again.feed(Input::Looked(look(Vec::new(), "t9")));
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

#[test]
fn a_claim_before_the_first_iteration_is_validated_and_needs_no_agent() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0")));
    world.feed(Input::Validated(validation(true, "t0")));
    assert_eq!(world.finished(), Some(StopReason::Completed));
    assert_eq!(world.state.iterations, 0);
}

#[test]
fn completion_in_the_last_allowed_iteration_wins_over_the_limit() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![], "t0")));
    for n in 1..5 {
        world.iterate(Outcome::Succeeded, vec![], &format!("t{n}"));
        assert_eq!(world.finished(), None);
    }
    world.iterate(Outcome::Succeeded, vec![claim(ClaimKind::Complete, ClaimSource::Message)], "t5");
    assert_eq!(world.finished(), None, "first the validators");
    world.feed(Input::Validated(validation(true, "t5")));
    assert_eq!(world.finished(), Some(StopReason::Completed));
}

#[test]
fn a_rejected_claim_stays_pending_and_the_same_work_is_rejected_only_so_often() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0")));
    world.feed(Input::Validated(validation(false, "t0")));
    for _ in 0..2 {
        assert_eq!(world.finished(), None);
        world.iterate(Outcome::Succeeded, vec![], "t0");
        assert!(world.last.iter().any(|effect| matches!(effect, Effect::Validate(_))));
        world.feed(Input::Validated(validation(false, "t0")));
    }
    assert_eq!(world.finished(), Some(StopReason::Thrashing));
}

#[test]
fn a_restart_does_not_make_rejected_work_worse() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0")));
    for _ in 0..10 {
        world.feed(Input::Validated(validation(false, "t0")));
        assert_eq!(world.finished(), None, "nobody has worked on it");
        world.prepare();
        world.feed(Input::Started(StartOptions { fresh: fresh() }));
        world.feed(Input::Looked(look(Vec::new(), "t0")));
        if world.state.iterations == 5 {
            break;
        }
    }
    assert_eq!(world.state.rejected_in_a_row(), 1);
}

#[test]
fn a_changed_tree_is_another_piece_of_work() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0")));
    for n in 1..5 {
        world.feed(Input::Validated(validation(false, &world.state.tree.clone())));
        assert_eq!(world.finished(), None);
        world.iterate(Outcome::Succeeded, vec![], &format!("t{n}"));
    }
    world.feed(Input::Validated(validation(false, "t4")));
    assert_eq!(world.state.rejected_in_a_row(), 1);
}

#[test]
fn trees_that_alternate_are_no_progress() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![], "t0")));
    for n in 1..=4 {
        world.iterate(Outcome::Succeeded, vec![], if n % 2 == 0 { "a" } else { "b" });
    }
    assert_eq!(world.state.stagnant, 2, "b and a were new once each");
}

#[test]
fn tree_changed_during_validation_rejects() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t0")));
    let mut changed = validation(true, "t0");
    changed.tree_after = "t1".into();
    world.feed(Input::Validated(changed));
    assert!(world.state.completion().is_none());
    assert!(world.state.rejection.as_ref().unwrap().reasons[0].contains("changed while"));
}

#[test]
fn human_is_asked_only_if_the_completion_does_not_stand() {
    let both = vec![
        claim(ClaimKind::Complete, ClaimSource::Message),
        claim(ClaimKind::NeedsHuman, ClaimSource::Message),
    ];
    for (good, end) in [(true, StopReason::Completed), (false, StopReason::NeedsHuman)] {
        let mut world = World::started();
        world.feed(Input::Looked(look(vec![], "t0")));
        world.iterate(Outcome::Succeeded, both.clone(), "t1");
        world.feed(Input::Validated(validation(good, "t1")));
        assert_eq!(world.finished(), Some(end));
    }
}

#[test]
fn a_run_that_asked_for_a_human_goes_on_when_started_again() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![], "t0")));
    let ask = vec![claim(ClaimKind::NeedsHuman, ClaimSource::Message)];
    world.iterate(Outcome::Succeeded, ask, "t1");
    assert_eq!(world.finished(), Some(StopReason::NeedsHuman));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.feed(Input::Looked(look(vec![], "t1")));
    world.prepare();
    assert_eq!(world.state.iterations, 2);
}

#[test]
fn a_lost_iteration_is_charged_its_reservation_at_least() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![], "t0")));
    world.prepare();
    let usage = Usage { cost: Some(Usd::from_nanos(500)), ..Usage::default() };
    world.feed(Input::Used(usage));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    assert_eq!(world.state.charged, limits().first_reservation);
    assert_eq!(world.state.failures, 0);
}

#[test]
fn refusals_by_the_provider_are_no_iterations_and_no_failures() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![], "t0")));
    let deferred =
        Outcome::Deferred { class: "overloaded".into(), message: "529".into(), until_ms: None };
    for attempt in 1..=4 {
        world.iterate(deferred.clone(), vec![], "t0");
        assert!(world.last.iter().any(|effect| matches!(effect, Effect::WaitUntil(_))));
        assert_eq!((world.state.iterations, world.state.failures), (1, 0));
        assert_eq!(world.state.deferrals, attempt);
        world.now.unix_ms += 3_600_000;
    }
}

#[test]
fn a_wait_that_is_too_long_needs_a_human() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![], "t0")));
    let far = Outcome::Deferred {
        class: "rate_limited".into(),
        message: "limit".into(),
        until_ms: Some(10_000_000_000),
    };
    world.iterate(far, vec![], "t0");
    assert_eq!(world.finished(), Some(StopReason::NeedsHuman));
}

#[test]
fn an_agent_that_is_not_logged_in_needs_a_human_and_is_tried_again_after_a_restart() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![], "t0")));
    let failed = Outcome::Failed { class: "unauthenticated".into(), message: "log in".into() };
    world.iterate(failed, vec![], "t0");
    assert_eq!(world.finished(), Some(StopReason::NeedsHuman));
    world.feed(Input::Started(StartOptions { fresh: fresh() }));
    world.feed(Input::Looked(look(vec![], "t0")));
    world.prepare();
}

#[test]
fn cost_that_reaches_the_limit_cuts_the_iteration_once() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![], "t0")));
    world.prepare();
    let dollars = |d| Usage { cost: Usd::from_dollars(d), ..Usage::default() };
    world.feed(Input::Used(dollars(0.9)));
    assert!(!world.last.contains(&Effect::Cancel(CancelReason::MaxCost)));
    world.feed(Input::Used(dollars(1.0)));
    assert!(world.last.contains(&Effect::Cancel(CancelReason::MaxCost)));
    world.feed(Input::Used(dollars(1.1)));
    assert!(!world.last.contains(&Effect::Cancel(CancelReason::MaxCost)));
    world.feed(Input::Ended(ended(Outcome::Failed {
        class: "cancelled".into(),
        message: String::new(),
    })));
    world.feed(Input::Looked(look(vec![], "t0")));
    assert_eq!(world.finished(), Some(StopReason::MaxCost));
    assert_eq!(world.state.failures, 0);
}

#[test]
fn reclaim_needs_a_new_claim_and_a_marker_that_stands_is_none() {
    let mut world = World::default();
    let mut options = fresh();
    options.policy.after_rejection = AfterRejection::Reclaim;
    let standing = || vec![claim(ClaimKind::Complete, ClaimSource::State)];
    let (state, effects) =
        step(State::default(), Input::Started(StartOptions { fresh: options }), Now::default());
    world.state = state;
    let mut inputs =
        vec![Input::Looked(look(standing(), "t0")), Input::Validated(validation(false, "t0"))];
    drop(effects);
    for input in inputs.drain(..) {
        (world.state, world.last) = step(world.state.clone(), input, world.now);
    }
    assert_eq!(world.state.latch, Latch::Open);
    let mut again = |claims: Vec<Claim>| {
        let (state, effects) =
            step(world.state.clone(), Input::Looked(look(claims, "t0")), world.now);
        world.state = state;
        effects.iter().any(|effect| matches!(effect, Effect::Validate(_)))
    };
    assert!(!again(standing()), "it stood there before");
    assert!(!again(vec![]));
    assert!(again(standing()), "removed and made again");
}

#[test]
fn a_signal_lets_the_claim_be_seen_but_starts_no_validation() {
    let mut world = World::started();
    world.feed(Input::Looked(look(vec![], "t0")));
    world.prepare();
    world.feed(Input::Signal);
    assert!(world.last.contains(&Effect::Cancel(CancelReason::Signal)));
    world.feed(Input::Ended(ended(Outcome::Failed {
        class: "cancelled".into(),
        message: String::new(),
    })));
    world.feed(Input::Looked(look(vec![claim(ClaimKind::Complete, ClaimSource::State)], "t1")));
    assert_eq!(world.finished(), Some(StopReason::Interrupted));
    assert!(matches!(world.state.latch, Latch::Claimed { .. }));
}

#[test]
fn what_was_nearly_a_claim_before_the_run_is_not_held_against_the_agent() {
    let miss = |text: &str, line| NearMiss {
        detector: "marker".into(),
        text: text.into(),
        line,
        hint: "use a box".into(),
    };
    let mut world = World::started();
    let mut first = look(vec![], "t0");
    first.near_misses = vec![miss("## TASK_COMPLETE", 3)];
    world.feed(Input::Looked(first));
    assert!(world.state.near_misses.is_empty());
    world.prepare();
    world.feed(Input::Ended(ended(Outcome::Succeeded)));
    let mut second = look(vec![], "t1");
    second.near_misses = vec![miss("## TASK_COMPLETE", 4), miss("- TASK_COMPLETE", 9)];
    world.feed(Input::Looked(second));
    assert_eq!(world.state.near_misses, [miss("- TASK_COMPLETE", 9)]);
}
