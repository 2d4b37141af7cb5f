//! kill -9 at any point, then `run`: the same order, statuses and completions.

use std::cmp::Reverse;

use rustix::process::Signal;

use super::{WORK, feature, features, series, series_of, statuses, worked};
use crate::environment::{TestEnvironment, eventually};

/// The item that has to be done before this one.
const fn before(n: usize) -> Option<usize> {
    if n % 3 == 1 && n > 2 { Some(n / 3) } else { None }
}

fn id(n: usize) -> String {
    format!("i{n:02}")
}

/// The order in which the items are worked: of those that wait for nothing, that with the highest priority.
fn order(count: usize) -> Vec<String> {
    let mut done: Vec<usize> = Vec::new();
    while done.len() < count {
        let open = (0..count).filter(|n| !done.contains(n));
        let ready = open.filter(|n| before(*n).is_none_or(|before| done.contains(&before)));
        done.push(ready.max_by_key(|n| (n % 5, Reverse(*n))).unwrap());
    }
    done.into_iter().map(id).collect()
}

/// Items with dependencies and different priorities.
fn items(count: usize) -> TestEnvironment {
    let features_of = |n: usize| {
        let after: Vec<String> = before(n).into_iter().map(id).collect();
        let after: Vec<&str> = after.iter().map(String::as_str).collect();
        feature(&id(n), i64::try_from(n % 5).unwrap(), &after)
    };
    let list: Vec<_> = (0..count).map(features_of).collect();
    let env = features(&list);
    let config = env.read("ralph.toml");
    let check = "[backlog]\ncheck = [\"test\", \"-e\", \"made-{item}\"]\n";
    assert!(config.contains("[backlog]\n"));
    env.write("ralph.toml", config.replace("[backlog]\n", check));
    // Each item is named once, however often its work is begun again, and none by an agent whose prompt was cut by
    // a kill; by one line, since a kill can come between two files.
    env.agent.default_call().script(&WORK.replace(
        "echo \"$id\" >> order",
        "[ -n \"$id\" ] || exit 1\ngrep -qsx \"$id\" order || echo \"$id\" >> order",
    ));
    env
}

/// Fails unless everything happened once.
fn verify(env: &TestEnvironment, expected: &[String], moment: &str) {
    assert_eq!(worked(env), expected, "{moment}");
    assert!(statuses(env).iter().all(|(_, status)| status == "completed"), "{moment}");
    for kind in ["item_finished", "status_written"] {
        let mut items: Vec<_> =
            series_of(env, kind).into_iter().map(|r| r["item"].clone()).collect();
        let count = items.len();
        items.sort_by_key(ToString::to_string);
        items.dedup();
        assert_eq!((items.len(), count), (expected.len(), expected.len()), "{kind} {moment}");
    }
}

/// Runs until the series has so many records, and kills the orchestrator then.
pub(super) fn kill_after_record(env: &TestEnvironment, at: usize) {
    let mut running = env.start(&["run"]);
    let path = env.root().join("home/.local/state/ralph-orchestrator");
    let has_come = || {
        let states = std::fs::read_dir(&path).into_iter().flatten().flatten();
        // Runs that go on at once have states of their own, without this record.
        let mut journals = states.map(|entry| entry.path().join("series/journal.jsonl"));
        let text = journals.find_map(|path| std::fs::read_to_string(path).ok());
        text.is_some_and(|text| text.lines().count() >= at)
    };
    eventually("the record", has_come);
    running.signal(Signal::KILL);
    running.wait();
}

#[test]
fn killed_after_any_record_of_the_series_it_ends_the_same() {
    let whole = items(3);
    whole.run().expect(0);
    verify(&whole, &order(3), "at once");
    let records = series(&whole).len();
    assert!(records >= 9, "{records}");
    for at in 1..records {
        let env = items(3);
        kill_after_record(&env, at);
        env.run().expect(0);
        verify(&env, &order(3), &format!("killed after record {at}"));
    }
}

#[test]
fn killed_again_and_again_twenty_items_end_in_the_same_order() {
    let env = items(20);
    // Moments that differ, and come again in each run of the test.
    let mut seed = 7_u64;
    let mut kills = 0;
    loop {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let calls = env.agent.calls();
        let more = usize::try_from((seed >> 33) % 3).unwrap() + 2;
        let mut running = env.start(&["run"]);
        let mut ended = false;
        eventually("some calls of the agent, or the end", || {
            ended = running.child.try_wait().unwrap().is_some();
            ended || env.agent.calls() >= calls + more
        });
        if ended {
            running.wait().expect(0);
            break;
        }
        running.signal(Signal::KILL);
        running.wait();
        kills += 1;
    }
    assert!(kills >= 5, "{kills}");
    verify(&env, &order(20), "in the end");
}

#[test]
fn what_an_agent_changed_before_the_kill_is_taken_back() {
    let env = features(&[feature("a", 1, &[])]);
    let fifo = env.fifo("hang");
    env.agent.call(1).script(&format!(
        "sed -i 's/made-a exists/anything/' feature-list.json; cat '{}'\n",
        fifo.display()
    ));
    let mut running = env.start(&["run"]);
    eventually("the edit", || env.read("feature-list.json").contains("anything"));
    running.signal(Signal::KILL);
    running.wait();
    env.run().expect(0).says("`acceptance_criteria` of item `a` was edited; it was restored");
    assert!(env.read("feature-list.json").contains("made-a exists"));
}

/// Until the next run takes it back, what the agent ticked is shown as what it is: not proved.
#[test]
fn an_items_tick_before_the_kill_counts_nowhere() {
    let env = features(&[feature("a", 2, &[]), feature("b", 1, &["a"])]);
    let fifo = env.fifo("hang");
    env.agent.call(1).script(&format!(
        "sed -i 's/in_progress/completed/' feature-list.json; cat '{}'\n",
        fifo.display()
    ));
    let mut running = env.start(&["run"]);
    eventually("the tick", || env.read("feature-list.json").contains("completed"));
    let shows_what_is_proved = || {
        let next = env.ralph(&["next", "--json"]).expect(0);
        let next: serde_json::Value = serde_json::from_str(&next.stdout).unwrap();
        assert_eq!((&next["item"]["id"], &next["items"]["completed"]), (&"a".into(), &0.into()));
        assert_eq!(env.status()["backlog"]["items"]["completed"], 0);
    };
    shows_what_is_proved();
    running.signal(Signal::KILL);
    running.wait();
    shows_what_is_proved();
    // Nor does a file that cannot be read any more hide what is proved.
    env.write("feature-list.json", "{");
    shows_what_is_proved();
    env.run().expect(0).says("the backlog could not be read and was restored");
    assert_eq!(env.status()["backlog"]["items"]["completed"], 2);
}

#[test]
fn a_changed_record_beside_the_runs_is_damage_and_starts_nothing() {
    let env = features(&[feature("a", 2, &[]), feature("b", 1, &[])]);
    env.ralph(&["run", "--once"]).expect(0);
    let path = env.state().join("series/journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"item\":\"a\"", "\"item\":\"b\"")).unwrap();
    let calls = env.agent.calls();
    env.run().expect(65);
    assert_eq!(env.agent.calls(), calls);
    env.ralph(&["run", "--restart"]).expect(0);
}
