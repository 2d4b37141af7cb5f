//! Proof that proves nothing, and validators that are tampered with.

use std::fs;

use super::{PROMISE, WORK, completed, ends, hostile, prompt_given, stopped, wait_measured};
use crate::environment::{TestEnvironment, eventually};

const EVIDENCE: &str = "\n[[validator]]\nkind = \"evidence-files\"\nmin_files = 1\n";
const DIR: &str = "validation-evidence";
/// Proof that counts.
const PROVE: &str = "rm -rf validation-evidence; mkdir validation-evidence
echo \"42 passed in call $n\" > validation-evidence/t.txt\n";

/// Claims with something in place of evidence; then, told what is wrong, proves it.
fn rejected_then_proved(what: &str, evidence: &str, reason: &str) {
    let env = hostile();
    env.config(EVIDENCE);
    env.agent.call(1).script(&format!("{WORK}mkdir {DIR}\n{evidence}\n")).out(PROMISE);
    env.agent.call(2).script(PROVE);
    let ended = env.run();
    let second = prompt_given(&env, 2);
    assert!(second.starts_with("Your claim that the task is complete was"), "{what}: {second}");
    assert!(second.contains(reason), "{what}: expected {reason:?} in {second}");
    ends(&env, what, &ended, completed(2, &["done", DIR]));
}

/// What the orchestrator itself meets, as it observes and keeps evidence. The validator has tests of its own for the rest.
#[test]
fn what_is_no_proof_is_refused_with_its_reason_and_then_mended() {
    let here = format!("cd {DIR}\n");
    for (what, evidence, reason) in [
        ("nothing", "", "validation-evidence"),
        (
            "a link in the folder's place",
            "cd ..; rmdir validation-evidence; ln -s / validation-evidence",
            "link",
        ),
        (
            "a FIFO in the folder's place",
            "cd ..; rmdir validation-evidence; mkfifo validation-evidence",
            "validation-evidence",
        ),
        ("a FIFO", "mkfifo x.png t.txt", "FIFO"),
        ("a terabyte of nothing", "truncate -s 1T t.txt", "t.txt"),
        (
            "folders without end",
            "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do mkdir d; cd d; done; echo 42 > t.txt",
            "folders deep",
        ),
    ] {
        rejected_then_proved(what, &format!("{here}{evidence}"), reason);
    }
}

#[test]
fn proof_of_failure_is_no_proof_where_the_configuration_says_so() {
    let env = hostile();
    env.config(&format!(
        "{EVIDENCE}must_not_match = ['\\d+ failed', 'Traceback']\nmust_match = ['\\d+ passed']\n"
    ));
    env.agent
        .call(1)
        .script(&format!("{WORK}mkdir {DIR}; echo '2 passed, 3 failed' > {DIR}/t.txt\n"))
        .out(PROMISE);
    env.agent.call(2).script(PROVE);
    let ended = env.run();
    assert!(prompt_given(&env, 2).contains("failed"), "{}", prompt_given(&env, 2));
    ends(&env, "failure", &ended, completed(2, &["done", DIR]));
}

#[test]
fn proof_older_than_the_work_is_stale() {
    let env = hostile();
    env.config(EVIDENCE);
    env.agent.call(1).script(&format!("{WORK}{PROVE}"));
    env.agent.call(2).script("echo 'one more change' > source\n").out(PROMISE);
    // Looked at, which changes none of the times that count.
    env.agent.call(3).script(&format!("cat {DIR}/t.txt > /dev/null\n"));
    env.agent.call(4).script(PROVE);
    let ended = env.run();
    for n in [3, 4] {
        assert!(prompt_given(&env, n).contains("t.txt"), "{}", prompt_given(&env, n));
    }
    ends(&env, "stale", &ended, completed(4, &["done", "source", DIR]));
}

#[test]
fn proof_kept_from_an_earlier_run_proves_nothing_in_the_next() {
    let env = hostile();
    env.config(EVIDENCE);
    env.agent.call(1).script(&format!("{WORK}{PROVE}")).out(PROMISE);
    ends(&env, "the first run", &env.run(), completed(1, &["done", DIR]));
    env.agent
        .call(2)
        .script(&format!("cd {DIR}; cp t.txt n.txt; rm t.txt; touch n.txt; cd ..; echo 1 > x\n"))
        .out(PROMISE);
    env.agent.call(3).script(&format!("rm x\n{PROVE}"));
    let ended = env.ralph(&["run", "--restart"]);
    ends(&env, "the second run", &ended, completed(2, &["done", DIR]));
    assert!(prompt_given(&env, 3).starts_with("Your claim"), "{}", prompt_given(&env, 3));
}

/// A validator that says when it runs and waits to be let go on, the first time.
fn held(env: &TestEnvironment) -> (std::path::PathBuf, std::path::PathBuf, String) {
    let (runs, go) = (env.fifo("runs"), env.fifo("go"));
    let validator = format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"held\"\n\
         program = [\"sh\", \"-c\", \"if [ -p '{0}' ]; then echo > '{0}'; rm '{0}'; cat '{1}'; fi\"]\n\
         [completion]\nbaseline = \"off\"\n",
        runs.display(),
        go.display()
    );
    (runs, go, validator)
}

#[test]
fn proof_that_vanishes_while_validators_run_is_no_proof() {
    let env = hostile();
    let (runs, go, validator) = held(&env);
    env.config(&format!("{EVIDENCE}{validator}"));
    env.agent.call(1).script(&format!("{WORK}{PROVE}")).out(PROMISE);
    env.agent.call(2).script(PROVE);
    let mut running = env.start(&["run"]);
    fs::read(runs).unwrap();
    fs::remove_dir_all(env.path(DIR)).unwrap();
    fs::write(go, "").unwrap();
    let ended = running.wait();
    assert!(prompt_given(&env, 2).contains("t.txt"), "{}", prompt_given(&env, 2));
    ends(&env, "vanished", &ended, completed(2, &["done", DIR]));
}

#[test]
fn a_tree_that_changes_while_validators_run_is_not_the_one_that_was_proved() {
    let env = hostile();
    let (runs, go, validator) = held(&env);
    env.config(&validator);
    env.write("source", "as it was");
    env.agent.call(1).script(WORK).out(PROMISE);
    let mut running = env.start(&["run"]);
    fs::read(runs).unwrap();
    env.write("source", "changed by somebody");
    fs::write(go, "").unwrap();
    let ended = running.wait();
    assert!(ended.stderr.contains("validated once more"), "{}", ended.stderr);
    ends(&env, "changed", &ended, completed(1, &["done", "source"]));
}

#[test]
fn protected_tests_can_not_be_weakened_in_any_way() {
    for (what, sabotage) in [
        ("edited", "echo 'exit 0' > check.sh"),
        ("deleted", "rm check.sh"),
        ("a link", "mv check.sh x; ln -s x check.sh"),
        ("not executable", "chmod -x check.sh"),
        ("a FIFO", "rm check.sh; mkfifo check.sh"),
        ("a folder", "rm check.sh; mkdir check.sh"),
    ] {
        let env = hostile();
        env.write("check.sh", "#!/bin/sh\ntest -e done\n");
        fs::copy(env.path("check.sh"), env.root().join("check.sh")).unwrap();
        let status =
            std::process::Command::new("chmod").arg("755").arg(env.path("check.sh")).status();
        assert!(status.unwrap().success());
        env.config("\n[[validator]]\nkind = \"command\"\nname = \"check\"\nprogram = [\"true\"]\nprotect = [\"check*\"]\n");
        env.agent.call(1).script(&format!("{WORK}{sabotage}\n")).out(PROMISE);
        env.agent.call(2).script("rm -rf check* x; cp ../check.sh check.sh; chmod 755 check.sh\n");
        let ended = env.run();
        assert!(prompt_given(&env, 2).contains("check"), "{what}: {}", prompt_given(&env, 2));
        ends(&env, what, &ended, completed(2, &["done", "check.sh"]));
    }
}

#[test]
fn programs_that_the_agent_puts_in_the_way_are_not_what_validates() {
    let mut env = hostile();
    // Even for a user who has the workspace in the search path.
    env.var("PATH", &format!(".:node_modules/.bin::{}", std::env::var("PATH").unwrap()));
    env.agent
        .call(1)
        .script(
            "mkdir -p node_modules/.bin; for p in ./test node_modules/.bin/test; do
             printf '#!/bin/sh\\nexit 0\\n' > $p; chmod +x $p; done\n",
        )
        .out(PROMISE);
    env.agent.call(2).script("rm -rf test node_modules; touch done\n");
    let ended = env.run();
    ends(&env, "shims", &ended, completed(2, &["done"]));
}

#[test]
fn a_validator_that_passes_only_now_and_then_is_asked_again() {
    let env = hostile();
    let count = env.root().join("count");
    env.config(&format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"flaky\"\npasses_required = 3\n\
         program = [\"sh\", \"-c\", \"echo x >> '{0}'; [ $(wc -l < '{0}') -ne 2 ]\"]\n\
         [completion]\nbaseline = \"off\"\n",
        count.display()
    ));
    env.agent.call(1).script(WORK).out(PROMISE);
    let ended = env.run();
    assert!(prompt_given(&env, 2).contains("flaky"), "{}", prompt_given(&env, 2));
    ends(&env, "flaky", &ended, completed(2, &["done"]));
    assert_eq!(fs::read_to_string(count).unwrap().len(), 2 * (2 + 3), "two, then three in a row");
}

#[test]
fn a_validator_that_leaves_a_daemon_behind_counts_and_the_daemon_is_ended() {
    let env = hostile();
    let pid = env.agent.program().with_file_name("daemon");
    env.config(&format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"daemon\"\n\
         program = [\"sh\", \"-c\", \"setsid sh -c 'echo $$ > {0}; exec sleep 1000' & until [ -s {0} ]; do :; done\"]\n",
        pid.display()
    ));
    env.agent.call(1).script(WORK).out(PROMISE);
    let ended = env.run();
    ends(&env, "daemon", &ended, completed(1, &["done"]));
}

#[test]
fn a_validator_that_prints_without_end_is_bounded_in_memory_and_in_what_is_reported() {
    let env = hostile();
    env.config(
        "\n[[validator]]\nkind = \"command\"\nname = \"loud\"\n\
         program = [\"sh\", \"-c\", \"yes $(seq 99 199) | head -c 60M; head -c 50M /dev/zero; exit 4\"]\n",
    );
    env.agent.call(1).script(WORK).out(PROMISE);
    let mut running = env.start(&["run", "--max-iterations", "1"]);
    let (ended, kib) = wait_measured(&mut running);
    assert!(kib < super::MOST_KIB, "{kib} KiB");
    let reasons = env.records("validated")[0]["reasons"].to_string();
    assert!(reasons.contains("loud") && reasons.len() < 64 * 1024, "{}", reasons.len());
    let end = super::End { latch: "claimed", ..stopped("max_iterations", 1, &["done"]) };
    ends(&env, "loud", &ended, end);
}

#[test]
fn a_validator_whose_program_was_removed_rejects_and_says_so() {
    let env = hostile();
    env.write("check.sh", "#!/bin/sh\n");
    assert!(
        std::process::Command::new("chmod")
            .arg("755")
            .arg(env.path("check.sh"))
            .status()
            .unwrap()
            .success()
    );
    env.config(
        "\n[[validator]]\nkind = \"command\"\nname = \"check\"\nprogram = [\"./check.sh\"]\n",
    );
    env.agent.call(1).script(&format!("{WORK}cp -p check.sh ..; rm check.sh\n")).out(PROMISE);
    env.agent.call(2).script("cp -p ../check.sh .\n");
    let ended = env.run();
    assert!(prompt_given(&env, 2).contains("check.sh"), "{}", prompt_given(&env, 2));
    ends(&env, "removed", &ended, completed(2, &["done", "check.sh"]));
}

#[test]
fn a_signal_reaches_a_run_whose_workspace_takes_for_ever_to_read() {
    let env = hostile();
    env.agent.call(1).script(super::sizes::MUCH);
    let mut running = env.start(&["run"]);
    eventually("it looks at the workspace", || env.has_record("iteration_ended"));
    running.signal(rustix::process::Signal::INT);
    let ended = running.wait();
    let end = super::End { code: 130, ..stopped("interrupted", 1, &["much"]) };
    ends(&env, "much", &ended, end);
}
