//! A backlog of which nothing can be worked on needs a person.

use super::{feature, features, worked};

#[test]
fn each_waiting_item_is_named_with_what_it_waits_for() {
    let mut blocked = feature("a", 9, &[]);
    blocked["status"] = "blocked".into();
    let env = features(&[blocked, feature("b", 1, &["a"]), feature("c", 1, &[])]);
    let ended = env.run().expect(2);
    ended.says("needs_human").says("a: blocked").says("b: waits for a (blocked)");
    assert_eq!(worked(&env), ["c"], "what can be done is done");
    ended.says("next: mend what blocks `a`, then");
    let why = env.ralph(&["why"]).expect(0);
    why.says("mend what blocks `a`, then");
    assert!(!why.stdout.contains("max_wait"), "{}", why.stdout);
    // Again, and as JSON.
    let ended = env.ralph(&["run", "--json"]).expect(2);
    let last = ended.events().pop().unwrap();
    assert_eq!(last["event"], "backlog_finished");
    assert_eq!(last["stop_reason"], "needs_human");
    assert_eq!(last["exit_code"], 2);
    assert_eq!(last["waiting"][1]["id"], "b");
    assert_eq!(last["waiting"][1]["reason"]["dependencies"][0]["id"], "a");
    assert_eq!(env.agent.calls(), 1);
    env.ralph(&["next"]).expect(2).says("b: waits for a (blocked)");
}

#[test]
fn unblocked_by_a_person_it_goes_on() {
    let mut blocked = feature("a", 9, &[]);
    blocked["status"] = "blocked".into();
    let env = features(&[blocked, feature("b", 1, &["a"])]);
    env.run().expect(2);
    assert_eq!(env.agent.calls(), 0);
    let status = env.ralph(&["status"]).expect(0);
    status.says("needs human: no item can be worked on: a: blocked; b: waits for a (blocked)");
    assert!(!status.stdout.contains("no run"), "{}", status.stdout);
    assert_eq!(env.status()["backlog"]["waiting"][1]["id"], "b");
    env.write("feature-list.json", env.read("feature-list.json").replace("blocked", "pending"));
    env.run().expect(0);
    assert_eq!(worked(&env), ["a", "b"]);
}

#[test]
fn a_question_of_the_agent_stops_the_backlog_until_it_is_answered() {
    let env = features(&[feature("a", 9, &[]), feature("b", 1, &[])]);
    env.agent.call(1).out("<promise>NEEDS_HUMAN: which colour?</promise>\n");
    env.run().expect(2).says("which colour?");
    assert_eq!(env.agent.calls(), 1, "the next item is not begun");
    env.ralph(&["answer", "blue"]).expect(0);
    env.run().expect(0);
    let given = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(given.contains("blue") && given.contains("# Current item: Make a"), "{given}");
}
