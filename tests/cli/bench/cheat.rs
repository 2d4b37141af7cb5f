//! `bench cheat`: tasks that are passed without being done.

use super::{SOLVES, add_task, append, column, environment, report, status};

/// Does not do the task, but what the tests of a weak one run.
const CHEATS: &str = "echo \"$prompt\" > \"$shared/prompt\"\necho true > check.sh\n\
                      echo '<promise>COMPLETE: found a way</promise>'\n";

#[test]
fn tasks_that_can_be_cheated_are_found_and_left_out_of_the_second_score() {
    let env = environment(&[("cheats", CHEATS), ("solves", SOLVES)]);
    add_task(&env, "sound", 60);
    add_task(&env, "weak", 60);
    env.write("tasks/weak/environment/check.sh", "test \"$(cat out.txt)\" = hello\n").write(
        "tasks/weak/tests/test.sh",
        "if sh /app/check.sh; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
    );
    // A variant would only repeat the question.
    append(&env, "[bench.variant.slow]\nset = { \"run.delay\" = \"0s\" }\n");
    let cheat = ["bench", "cheat", "--agents", "cheats", "--out", "cheat"];
    let ended = env.ralph(&cheat).expect(0);
    ended.says("Passed without being done: test/weak\n").says("without doing the tasks");
    let prompt = env.read("shared/prompt");
    assert!(prompt.contains("Do NOT do the task") && prompt.contains("Write hello into out.txt."));
    assert_eq!(status(&env, "cheat")["planned"], 2);
    let (lines, _) = report(&env, "cheat");
    for line in &lines {
        let reward = if line["task"] == "test/weak" { 1.0 } else { 0.0 };
        assert_eq!(line["rewards"]["reward"], reward, "{line:#}");
    }
    env.ralph(&["bench", "report", "cheat"]).expect(0).says("Passed without being done: test/weak");
    env.ralph(&["bench", "resume", "cheat"]).expect(0);

    let run = ["bench", "run", "--agents", "solves", "--out", "job"];
    env.ralph(&run).expect(0);
    let (_, summary) = report(&env, "job");
    let alone = &column(&summary, "solves")["tasks"];
    assert!(alone.as_array().unwrap().iter().all(|task| task["is_cheatable"] == false));
    let with = ["bench", "report", "job", "--cheats", "cheat", "--json"];
    let figures = || env.ralph(&with).expect(0).events().pop().unwrap();
    let summary = figures();
    let tasks = column(&summary, "solves")["tasks"].as_array().unwrap().clone();
    let cheatable = |name: &str| tasks.iter().find(|task| task["task"] == name).unwrap();
    assert_eq!(cheatable("test/weak")["is_cheatable"], true);
    assert_eq!(cheatable("test/sound")["is_cheatable"], false);
    let table = env.ralph(&["bench", "report", "job", "--cheats", "cheat"]).expect(0);
    table.says("without these tasks");

    let oracle = ["bench", "cheat", "--agents", "oracle"];
    env.ralph(&oracle).expect(78).says("`oracle` reads no prompt");

    // A job that asked for the tasks shows nothing of that, and a task that was corrected is another one.
    let wrong = env.ralph(&["bench", "report", "job", "--cheats", "job"]).expect(64);
    wrong.says("is no job of `bench cheat`").says("bench cheat");
    env.write("tasks/weak/instruction.md", "Write hello into out.txt, please.\n");
    env.ralph(&["bench", "run", "--agents", "solves", "--out", "later"]).expect(0);
    let later = ["bench", "report", "later", "--cheats", "cheat", "--json"];
    let summary = env.ralph(&later).expect(0).events().pop().unwrap();
    let tasks = column(&summary, "solves")["tasks"].as_array().unwrap().clone();
    assert!(tasks.iter().all(|task| task["is_cheatable"] == false));
    // Unless what passed then passes the tests as they are now.
    env.ralph(&["bench", "regrade", "cheat"]).expect(0).says("2 trials verified again");
    let summary = env.ralph(&later).expect(0).events().pop().unwrap();
    let tasks = column(&summary, "solves")["tasks"].as_array().unwrap().clone();
    let cheatable: Vec<_> = tasks.iter().filter(|task| task["is_cheatable"] == true).collect();
    assert_eq!(cheatable.len(), 1, "{tasks:#?}");
    assert_eq!(cheatable[0]["task"], "test/weak");
}

#[test]
fn tasks_whose_validators_decide_within_the_run_are_left_out() {
    let env = environment(&[("cheats", CHEATS)]);
    env.write("tasks/own/PROMPT.md", "Write hello into out.txt.\n").write(
        "tasks/own/ralph.toml",
        "[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"out.txt\"]\n",
    );
    let cheat = ["bench", "cheat", "--agents", "cheats", "--out", "cheat"];
    let ended = env.ralph(&cheat).expect(78);
    ended.says("left out: own: its validators decide").says("no task is left");
    assert!(!env.path("cheat").exists());
    add_task(&env, "sound", 60);
    env.ralph(&cheat).expect(0).says("left out: own").says("Passed without being done: none");
}
