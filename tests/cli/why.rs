//! `why`: the story of a run, for people and for programs.

use serde_json::Value;

use crate::environment::TestEnvironment;

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";
const EVIDENCE: &str = "\n[[validator]]\nkind = \"evidence-files\"\n";

fn narrow(text: &str) {
    let state = |line: &&str| !line.contains("/home/");
    for line in text.lines().filter(state) {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        assert!(line.chars().all(|c| !c.is_control()), "{line:?}");
    }
}

fn why_json(env: &TestEnvironment) -> Value {
    serde_json::from_str(&env.ralph(&["why", "--json"]).expect(0).stdout).unwrap()
}

#[test]
fn without_a_run_there_is_nothing_to_explain() {
    TestEnvironment::new().ralph(&["why"]).expect(0).says("no run");
}

#[test]
fn rejections_for_the_same_reason_are_one_line() {
    let env = TestEnvironment::new();
    env.config(EVIDENCE);
    env.agent.default_call().script("touch done; echo $n >> progress.md\n").out(DONE);
    env.ralph(&["run", "--max-iterations", "4"]).expect(1);
    let ended = env.ralph(&["why"]).expect(0);
    narrow(&ended.stdout);
    ended.says("rejected 4×, always:").says("evidence directory `validation-evidence` not\nfound");
    ended.says("  1–4    agent ended, changed files, claimed completion").says("What to do:");
    let story = why_json(&env);
    assert_eq!((&story["rejections"], &story["causes"][0]["times"]), (&4.into(), &4.into()));
    assert_eq!(story["causes"][0]["validator"], "evidence-files");
    assert_eq!(story["iterations"].as_array().unwrap().len(), 4);
    assert_eq!(story["iterations"][0]["tree"], "new");
    assert_eq!(story["stop_reason"], env.status()["stop_reason"]);
    assert!(!story["advice"].as_array().unwrap().is_empty());
}

#[test]
fn tells_the_money_apart_and_what_changed() {
    let env = TestEnvironment::new();
    let result = |cost: &str| {
        format!(
            "{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"num_turns\":1,\
             \"result\":\"working\",\"session_id\":\"s\",\"total_cost_usd\":{cost}}}\n"
        )
    };
    let program = env.agent.program().display().to_string();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"{program}\"]\noutput = \"claude-json\"\n[[validator]]\nkind = \"command\"\n\
         name = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n"
    ));
    env.agent.call(1).script("echo 1 > a\n").out(result("0.25"));
    env.agent.call(2).out(result("1.50"));
    env.agent.call(3).script("rm a\n").out(result("0.25"));
    env.ralph(&["run", "--max-iterations", "3"]).expect(1);
    let ended = env.ralph(&["why"]).expect(0);
    narrow(&ended.stdout);
    ended
        .says("max_iterations")
        .says("  1      agent ended, changed 1 file, +1 -0")
        .says("  2      agent ended, changed nothing")
        .says("  3      agent ended, restored files to an earlier state")
        .says("total  $2.00 of")
        .says("most expensive: iteration 2, $1.50")
        .says("limits.max_iterations (3) was the limit of this start only");
    let story = why_json(&env);
    assert_eq!((&story["cost_usd"], &story["claims"]), (&2.0.into(), &0.into()));
}

#[test]
fn a_completed_run_and_one_that_stopped_for_a_human() {
    let env = TestEnvironment::new();
    env.agent.call(1).out("<promise>NEEDS_HUMAN: which \u{1b}[31mport?</promise>\n");
    env.agent.call(2).script("touch done\n").out(DONE);
    env.run().expect(2);
    let ended = env.ralph(&["why"]).expect(0);
    narrow(&ended.stdout);
    ended.says("needs_human").says("asked for a human").says("answer");
    env.ralph(&["answer", "80"]).expect(0);
    env.run().expect(0);
    let ended = env.ralph(&["why"]).expect(0);
    ended.says("completed: made it").says("accepted").says("nothing: the work is proved done");
    assert_eq!(why_json(&env)["stop_reason"], "completed");
}

#[test]
fn a_validator_that_cannot_check_is_named_first() {
    let env = TestEnvironment::new();
    env.config(
        "\n[[validator]]\nkind = \"command\"\nname = \"slow\"\nprogram = [\"sleep\", \"1000\"]\n\
         timeout = \"100ms\"\n",
    );
    env.agent.default_call().script("touch done; echo $n > x\n").out(DONE);
    let ran = env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    let ended = env.ralph(&["why"]).expect(0);
    ended.says("claimed 2×, not checked 2×").says("fix the validator `slow`");
    assert_eq!(why_json(&env)["causes"][0]["is_error"], true);
    let no_rejection = |shown: &str| {
        let others = shown.replace("neither accepted nor rejected", "").to_lowercase();
        let others = others.replace("rejected by tests, as it should be", "");
        assert!(!others.contains("rejected"), "{shown}");
    };
    no_rejection(&ended.stdout);
    ran.says("not checked");
    no_rejection(&ran.stderr);
    let status = env.ralph(&["status"]).expect(0);
    no_rejection(status.says("not checked 2 times").stdout.as_str());
    assert_eq!(env.status()["latch"]["rejections"], 0);
    no_rejection(&env.ralph(&["log"]).expect(0).stdout);
    let prompt = env.ralph(&["log", "2", "--prompt"]).expect(0);
    no_rejection(prompt.says("could not be checked").stdout.as_str());
}

#[test]
fn many_iterations_stay_readable() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("if [ $((n % 2)) = 0 ]; then echo $n > x; fi\n");
    env.ralph(&["run", "--max-iterations", "60", "--set", "limits.max_stagnant=100"]).expect(1);
    let ended = env.ralph(&["why"]).expect(0);
    narrow(&ended.stdout);
    ended.says("more groups of iterations");
    assert!(ended.stdout.lines().count() < 120, "{}", ended.stdout);
    assert_eq!(why_json(&env)["iterations"].as_array().unwrap().len(), 60);
}

#[test]
fn a_headline_says_what_became_of_the_claims_once() {
    let env = TestEnvironment::new();
    env.config(EVIDENCE);
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(1).says("thrashing: ");
    let ended = env.ralph(&["why"]).expect(0);
    assert!(
        ended.stdout.starts_with("thrashing: the same work was rejected 3 times"),
        "{}",
        ended.stdout
    );
    assert_eq!(ended.stdout.matches("claimed 3×").count(), 1, "{}", ended.stdout);
}
