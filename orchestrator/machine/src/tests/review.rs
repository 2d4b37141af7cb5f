//! An agent reviews the work that the checks accept.

use super::*;

/// Begins and ends of reviews, most of the time of none that is under way.
pub(super) fn inputs() -> impl Strategy<Value = Input> {
    (any::<bool>(), 0u64..30_000_000)
        .prop_map(|(begins, nanos)| if begins { started(nanos) } else { ended_with(Some(nanos)) })
}

fn started(nanos: u64) -> Input {
    let (validator, agent) = ("review".to_owned(), "judge".to_owned());
    Input::ReviewStarted(ReviewStart { validator, agent, reservation: Usd::from_nanos(nanos) })
}

fn ended_with(nanos: Option<u64>) -> Input {
    let tokens = Some(Tokens { output: 7, ..Tokens::default() });
    let usage = Usage { tokens, cost: nanos.map(Usd::from_nanos), estimated: false };
    let (validator, agent) = ("review".to_owned(), "judge".to_owned());
    Input::ReviewEnded(ReviewEnd { validator, agent, usage, is_cost_missing: nanos.is_none() })
}

fn with_review() -> RunStarted {
    let mut fresh = fresh();
    fresh.policy.validators.push(validator("review", true));
    fresh
}

/// A run whose claim is being validated.
fn claimed() -> World {
    let mut world = World::default();
    world.feed(Input::Started(StartOptions { fresh: with_review() }));
    world.observe(vec![], "t0");
    let done = vec![claim(ClaimKind::Complete, ClaimSource::Message)];
    world.iterate(IterationOutcome::Succeeded, done, "t1");
    world
}

fn reviewed(verdict: Verdict, tree: &str) -> Validation {
    let mut validation = validation(true, tree);
    let info = validator("review", true);
    validation.verdicts.push(ValidatorVerdict::new(&info, verdict, 1));
    validation
}

#[test]
fn what_one_uses_counts_to_the_limits_and_to_its_agent() {
    for (nanos, charged) in [(Some(5), 5), (None, 40)] {
        let mut world = claimed();
        world.feed(started(40));
        world.feed(ended_with(nanos));
        assert_eq!(world.state.cost(), Usd::from_nanos(charged));
        assert_eq!(world.state.tokens().output, 7);
        let used = &world.state.agent.used["judge"];
        assert_eq!((used.attempts, used.cost_usd), (1, Usd::from_nanos(charged)));
        // A second end of the same one is none.
        world.feed(ended_with(nanos));
        assert_eq!(world.state.cost(), Usd::from_nanos(charged));
    }
}

#[test]
fn one_whose_end_was_lost_is_charged_its_reservation_once() {
    let mut world = claimed();
    world.feed(started(40));
    for _ in 0..2 {
        world.feed(Input::Started(StartOptions { fresh: with_review() }));
        assert_eq!(world.state.cost(), Usd::from_nanos(40));
    }
    assert!(matches!(world.state.latch, Latch::Claimed { .. }), "it is validated again");
}

#[test]
fn one_that_did_not_run_is_a_reason_only_where_nothing_else_is_wrong() {
    for (good, reasons) in [(true, ["review: it did not run"]), (false, ["tests: exit 1"])] {
        let mut world = claimed();
        world.feed(Input::Validated(validation(good, "t1")));
        let rejection = world.state.validation.rejection.as_ref().unwrap();
        assert_eq!(rejection.reasons, reasons);
    }
}

#[test]
fn the_same_verdict_in_other_words_is_no_progress() {
    let mut world = claimed();
    world.feed(started(1));
    world.feed(ended_with(Some(1)));
    world.feed(Input::Validated(reviewed(Verdict::rejected("the loop is wrong"), "t1")));
    let mut stagnant = Vec::new();
    for words in ["a loop that is wrong", "this loop does not end"] {
        world.feed(Input::WaitFinished);
        world.iterate(IterationOutcome::Succeeded, vec![], "t1");
        world.feed(Input::Validated(reviewed(Verdict::rejected(words), "t1")));
        stagnant.push(world.state.progress.stagnant);
    }
    assert!(stagnant[1] > stagnant[0], "{stagnant:?}");
}
