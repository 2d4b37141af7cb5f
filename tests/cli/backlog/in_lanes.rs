//! What looks at, steers and begins anew the runs of items that are worked on at once.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use super::feature;
use super::parallel::{lanes, series_of, show, verify_merged};
use crate::environment::{TestEnvironment, eventually};
use crate::git::git;

/// Two pipes for each item: its agent says that it is there, and waits.
struct Gates(TestEnvironment);

impl Gates {
    fn new() -> Self {
        let probe = TestEnvironment::new();
        for name in ["up-a", "go-a", "up-b", "go-b"] {
            probe.fifo(name);
        }
        Self(probe)
    }

    fn path(&self) -> PathBuf {
        self.0.root()
    }

    /// Shell commands that meet the test.
    fn meet(&self) -> String {
        let at = self.path();
        let at = at.display();
        format!("echo here > '{at}/up-'$id; cat '{at}/go-'$id > /dev/null")
    }

    fn wait_for(&self, item: &str) {
        assert_eq!(fs::read_to_string(self.path().join(format!("up-{item}"))).unwrap(), "here\n");
    }

    fn release(&self, item: &str) {
        fs::write(self.path().join(format!("go-{item}")), "go").unwrap();
    }
}

fn lane_of(env: &TestEnvironment, item: &str) -> Value {
    let status = env.status();
    let lanes = status["backlog"]["lanes"].as_array().unwrap().clone();
    lanes.into_iter().find(|lane| lane["item"] == item).unwrap_or_default()
}

#[test]
fn runs_at_once_are_shown_and_steered_each_by_its_item() {
    let gates = Gates::new();
    let agent = format!(
        "if [ ! -e first ]; then echo > first; {}; exit; fi\n\
         printf '%s' \"$prompt\" | grep -q 'use blue' && echo blue > colour-$id\n\
         echo $id > made-$id; claim\n",
        gates.meet()
    );
    let env = lanes(&[feature("a", 2, &[]), feature("b", 1, &[])], &agent, "ls made-*", "");
    let mut running = env.start(&["run"]);
    ["a", "b"].iter().for_each(|item| gates.wait_for(item));

    let runs = env.ralph(&["runs", "--json"]).expect(0);
    let runs: Value = serde_json::from_str(&runs.stdout).unwrap();
    let mut items: Vec<&str> =
        runs.as_array().unwrap().iter().filter_map(|run| run["item"].as_str()).collect();
    items.sort_unstable();
    assert_eq!(items, ["a", "b"]);
    let run = lane_of(&env, "a")["run"].as_str().unwrap().to_owned();
    env.ralph(&["why", "--run", &run]).expect(0).says("running, iteration 1").says(&run);
    env.ralph(&["why"]).expect(0).says("running, iteration 1");
    env.ralph(&["log", "--run", &run]).expect(0).says("item a");
    env.ralph(&["log"]).expect(0).says("item a").says("item b");
    let folder = PathBuf::from(lane_of(&env, "a")["worktree"].as_str().unwrap());
    let mut there = env.command(&["why"]);
    let said = there.current_dir(&folder).output().unwrap();
    let said =
        String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("this is the worktree of its item a") && said.contains(&run), "{said}");

    env.ralph(&["steer", "use blue"]).expect(64).says("`a`, `b`").says("--item");
    env.ralph(&["steer", "use blue", "--item", "c"]).expect(64).says("item `c`");
    env.ralph(&["steer", "use blue", "--item", "a"]).expect(0).says("item a: queued");
    env.ralph(&["limits", "--max-iterations", "3"]).expect(64).says("--item");
    let limits = env.ralph(&["limits", "--item", "b", "--max-iterations", "3"]).expect(0);
    limits.says("set by").says("its share of");
    env.ralph(&["pause"]).expect(0).says("item a: ").says("item b: ");
    ["a", "b"].iter().for_each(|item| gates.release(item));
    eventually("both paused", || {
        ["a", "b"].iter().all(|it| lane_of(&env, it)["phase"] == "paused")
    });
    env.ralph(&["resume", "--item", "a"]).expect(0);
    eventually("the merge", || !series_of(&env, "item_merged").is_empty());
    assert_eq!(lane_of(&env, "b")["phase"], "paused");
    env.ralph(&["resume"]).expect(0).says("item b: ");
    running.wait().expect(0);
    verify_merged(&env, &["a", "b"], "in the end");
    assert_eq!(show(&env, "colour-a"), "blue");
    let files = git(&env, &["ls-tree", "--name-only", &super::parallel::branch(&env)]);
    assert!(!files.contains("colour-b"), "{files}");
}

#[test]
fn an_answer_has_its_item_go_on_beside_the_others() {
    let gates = Gates::new();
    let agent = format!(
        "case $id in\n\
         a) printf '%s' \"$prompt\" | grep -q 'in blue' || {{ echo '<promise>NEEDS_HUMAN: which colour?</promise>'; exit; }};;\n\
         b) {};;\nesac\necho $id > made-$id; claim\n",
        gates.meet()
    );
    let env = lanes(&[feature("a", 2, &[]), feature("b", 1, &[])], &agent, "ls made-*", "");
    let mut running = env.start(&["run"]);
    gates.wait_for("b");
    eventually("the question", || lane_of(&env, "a")["phase"] == "needs_human");
    // Only one has asked.
    env.ralph(&["answer", "in blue"]).expect(0).says("item a: answered the question");
    gates.release("b");
    running.wait().expect(0).says("backlog 2/2");
    verify_merged(&env, &["a", "b"], "in the end");
}

#[test]
fn a_new_beginning_has_a_worktree_of_its_own_and_names_what_is_not_merged() {
    let gates = Gates::new();
    let agent = format!("echo $id > made-$id\nif [ $id = b ]; then {}; fi\nclaim\n", gates.meet());
    let env = lanes(&[feature("a", 2, &[]), feature("b", 1, &[])], &agent, "ls made-*", "");
    let mut running = env.start(&["run"]);
    gates.wait_for("b");
    eventually("the merge of the other", || !series_of(&env, "status_written").is_empty());
    let left = lane_of(&env, "b");
    running.signal(Signal::KILL);
    running.wait();
    env.ralph(&["status"]).expect(0).says("unmerged").says(left["branch"].as_str().unwrap());
    let agent = env.root().join("agent.sh");
    let text = fs::read_to_string(&agent).unwrap();
    fs::write(&agent, text.replace("if [ $id = b ]", "if false")).unwrap();
    let again = env.ralph(&["run", "--restart"]).expect(0);
    again.says("backlog 2/2").says("is not merged").says(left["branch"].as_str().unwrap());
    let trunks = series_of(&env, "lanes_started");
    let branches: Vec<&str> =
        trunks.iter().map(|it| it["trunk"]["branch"].as_str().unwrap()).collect();
    assert!(branches.len() == 2 && branches[0] != branches[1], "{branches:?}");
    let subjects = |branch: &str| git(&env, &["log", "--format=%s", branch]);
    for (branch, merged) in [(branches[0], vec!["a"]), (branches[1], vec!["a", "b"])] {
        let subjects = subjects(branch);
        let count = subjects.matches("Merge item").count();
        assert_eq!(count, merged.len(), "{branch}: {subjects}");
    }
    assert_eq!(git(&env, &["status", "--porcelain"]), "");
}

#[test]
fn what_one_item_was_refused_by_the_provider_no_other_asks_for() {
    let gates = Gates::new();
    let agent = format!(
        "echo $id >> '{at}/calls'; {meet}\n\
         if [ $id = b ]; then printf '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\
         \"result\":\"more to do\",\"session_id\":\"s\",\"num_turns\":1}}\\n'; exit; fi\n\
         printf '{{\"type\":\"rate_limit_event\",\"rate_limit_info\":{{\"status\":\"rejected\",\"resetsAt\":%s,\
         \"rateLimitType\":\"five_hour\"}},\"session_id\":\"s\"}}\\n' $(($(date +%s) + 3600))\n\
         printf '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":429,\
         \"result\":\"limit reached\",\"session_id\":\"s\",\"num_turns\":1}}\\n'\nexit 1\n",
        at = gates.path().display(),
        meet = gates.meet(),
    );
    let env = lanes(&[feature("a", 2, &[]), feature("b", 1, &[])], &agent, "ls made-*", "");
    let text = env.read("ralph.toml");
    env.write(
        "ralph.toml",
        text.replace("[agent.config]\n", "[agent.config]\noutput = \"claude-json\"\n"),
    );
    let waits = |item: &str| {
        let run = lane_of(&env, item)["run"].as_str().unwrap_or_default().to_owned();
        env.ralph(&["log", "--json", "--run", &run]).stdout.contains("\"kind\":\"waiting\"")
    };
    let mut running = env.start(&["run"]);
    ["a", "b"].iter().for_each(|item| gates.wait_for(item));
    gates.release("a");
    eventually("the first wait", || waits("a"));
    gates.release("b");
    eventually("the wait of the other", || waits("b"));
    running.signal(Signal::INT);
    running.wait().expect(130);
    let mut calls: Vec<String> = fs::read_to_string(gates.path().join("calls"))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    calls.sort();
    assert_eq!(calls, ["a", "b"]);
}
