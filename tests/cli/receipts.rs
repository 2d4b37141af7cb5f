//! `receipt` and `verify RECEIPT`: what a completed run states, and who believes it.

use std::path::PathBuf;
use std::process::Command;

use data_encoding::BASE64;
use serde_json::Value;

use crate::environment::TestEnvironment;

/// A workspace whose check wants a file, which the agent writes.
fn environment() -> TestEnvironment {
    let mut env = TestEnvironment::new();
    env.var("SECRET_TOKEN", "a-token-that-nobody-sees");
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"sh\", \"-c\", \"test -e done && echo a-token-that-nobody-sees\"]\n\
         [[validator]]\nkind = \"command\"\nname = \"style\"\nrequired = false\nprogram = [\"false\"]\n\
         [env]\npass = [\"SECRET_TOKEN\"]\n",
    );
    env.agent.default_call().script("touch done\necho '<promise>COMPLETE: done</promise>'");
    env
}

fn statement(receipt: &str) -> Value {
    let envelope: Value = serde_json::from_str(receipt).unwrap();
    let payload = BASE64.decode(envelope["payload"].as_str().unwrap().as_bytes()).unwrap();
    serde_json::from_slice(&payload).unwrap()
}

/// A completed run with its receipt in a file outside of the workspace.
fn completed() -> (TestEnvironment, PathBuf) {
    completed_by("test -e done && echo a-token-that-nobody-sees")
}

/// The same with this check.
fn completed_by(check: &str) -> (TestEnvironment, PathBuf) {
    let env = environment();
    let config = env.read("ralph.toml");
    env.write("ralph.toml", config.replace("test -e done && echo a-token-that-nobody-sees", check));
    env.run().expect(0);
    let path = env.root().join("receipt.json");
    env.ralph(&["receipt", "--out", path.to_str().unwrap()]).expect(0).says("made a key");
    (env, path)
}

#[test]
fn a_receipt_states_what_was_accepted_and_is_verified_anywhere() {
    let (env, path) = completed();
    let receipt = std::fs::read_to_string(&path).unwrap();
    let statement = statement(&receipt);
    let completion = &statement["predicate"];
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["subject"][0]["digest"]["ralphTree"], env.records("completed")[0]["tree"]);
    assert_eq!(completion["run"], env.status()["run"]);
    assert_eq!(completion["iterations"], 1);
    assert_eq!(completion["validators"][0]["definition"]["program"][0], "sh");
    assert_eq!(completion["validators"][0]["verdict"]["result"], "accepted");
    assert_eq!(completion["validators"][1]["verdict"]["result"], "not_accepted");
    assert_eq!(completion["validators"][1]["required"], false);
    let journal = std::fs::read(env.journal_path()).unwrap();
    let records = journal.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(completion["journal"]["records"], records);
    assert!(!statement.to_string().contains("nobody-sees"), "{statement}");
    let shown = env.ralph(&["verify", path.to_str().unwrap()]).expect(0);
    shown.says("ok    tests: ").says("FAIL  style (not required)").says("verified: signed by key ");

    // Another machine has the public key and nothing else.
    let public = env.root().join("public.pem");
    std::fs::write(&public, env.ralph(&["receipt", "key"]).expect(0).stdout).unwrap();
    let other = TestEnvironment::new();
    let receipt = path.to_str().unwrap();
    other.ralph(&["verify", receipt]).expect(64).says("no key that is trusted");
    other.ralph(&["verify", receipt, "--key", public.to_str().unwrap()]).expect(0);
    let shown =
        other.ralph(&["verify", receipt, "--json", "--key", public.to_str().unwrap()]).expect(0);
    let value: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&value["verified"], &value["completion"]["iterations"]), (&true.into(), &1.into()));
}

#[test]
fn what_was_changed_is_not_verified() {
    let (env, path) = completed();
    let receipt = std::fs::read_to_string(&path).unwrap();
    let mut envelope: Value = serde_json::from_str(&receipt).unwrap();
    let mut forged = statement(&receipt);
    forged["predicate"]["iterations"] = 7.into();
    envelope["payload"] = BASE64.encode(forged.to_string().as_bytes()).into();
    let forged = env.root().join("forged.json");
    std::fs::write(&forged, envelope.to_string()).unwrap();
    let shown = env.ralph(&["verify", forged.to_str().unwrap()]).expect(1);
    shown.says("no key that is trusted has signed it").says("not verified");
    let shown = env.ralph(&["verify", forged.to_str().unwrap(), "--json"]).expect(1);
    assert_eq!(serde_json::from_str::<Value>(&shown.stdout).unwrap()["verified"], false);
    std::fs::write(&forged, "{}").unwrap();
    env.ralph(&["verify", forged.to_str().unwrap()]).expect(1).says("no DSSE envelope");
    env.ralph(&["verify", "/nonexistent.json"]).expect(64);
}

#[test]
fn only_accepted_work_has_a_receipt() {
    let env = environment();
    env.ralph(&["receipt"]).expect(64);
    env.agent.default_call().script("echo '<promise>COMPLETE: nothing</promise>'");
    env.ralph(&["run", "--once"]);
    env.ralph(&["receipt"]).expect(64).says("is not complete");
    assert!(!env.root().join("home/.config/ralph-orchestrator/receipt-key.pem").exists());

    // Trust is no proof.
    let trusting = TestEnvironment::new();
    trusting.raw_config(
        "[agent]\nadapter = \"command\"\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
         [completion]\ntrust_agent = true\n",
    );
    trusting.agent.default_call().script("echo '<promise>COMPLETE: trust me</promise>'");
    trusting.ralph(&["receipt", "key"]).expect(0);
    trusting.run().expect(0);
    trusting.ralph(&["receipt"]).expect(64).says("no validator was required");
}

#[test]
fn each_completed_run_writes_its_receipt_once_there_is_a_key() {
    let env = environment();
    env.ralph(&["receipt", "key"]).expect(0).says("BEGIN PUBLIC KEY");
    env.run().expect(0).says("receipt: ");
    let path = env.journal_path().with_file_name("receipt.json");
    env.ralph(&["verify", path.to_str().unwrap()]).expect(0);
    let key = env.root().join("home/.config/ralph-orchestrator/receipt-key.pem");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    // A key that is damaged costs the receipt, and not the run.
    std::fs::write(&key, "nonsense").unwrap();
    env.write("done2", "");
    env.ralph(&["run", "--restart"]).expect(0).says("no receipt was written");
    assert_eq!(env.status()["latch"]["state"], "completed");
}

#[test]
fn the_checks_run_again_on_the_same_work_only() {
    let (env, path) = completed();
    let receipt = path.to_str().unwrap();
    env.ralph(&["verify", receipt, "--rerun"])
        .expect(0)
        .says("verified: the required validator accepts");
    env.write("more.txt", "");
    let shown = env.ralph(&["verify", receipt, "--rerun"]).expect(1);
    shown.says("the workspace is not what was accepted");
    std::fs::remove_file(env.path("more.txt")).unwrap();
    let config = env.read("ralph.toml");
    env.write("ralph.toml", config.replace("test -e done", "true"));
    env.ralph(&["verify", receipt, "--rerun"]).expect(1).says("`tests` is another one now");
    env.write("ralph.toml", config.replace("name = \"tests\"", "name = \"others\""));
    env.ralph(&["verify", receipt, "--rerun"])
        .expect(1)
        .says("`tests` is not in the configuration");
    env.write("ralph.toml", config);
    env.ralph(&["verify", receipt, "--rerun"]).expect(0);
}

#[test]
fn code_that_a_receipt_is_not_about_is_not_run_again() {
    let (env, path) =
        completed_by("for file in $(find . -name '*.sh'); do . $file; done; test -e done");
    let ran = env.root().join("ran");
    let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
    for folder in [".ralph", "cache", "kept/cache"] {
        env.write(&format!("{folder}/new.sh"), format!("touch '{}'\n", ran.display()));
        if folder != ".ralph" {
            env.write(&format!("{folder}/CACHEDIR.TAG"), tag);
        }
    }
    // What git ignores in the folder itself has to be there, as installed packages have.
    env.write("venv/CACHEDIR.TAG", tag).write("venv/.gitignore", "*\n");
    env.write("venv/seen.sh", format!("touch '{}'\n", env.root().join("seen").display()));
    let again = env.ralph(&["verify", path.to_str().unwrap(), "--rerun"]).expect(0);
    again.says(
        "hidden from the checks, since the receipt is not about it: .ralph, cache, kept/cache",
    );
    assert!(!ran.exists() && env.root().join("seen").exists());
}

#[test]
fn a_clone_of_the_work_is_verified_like_the_work() {
    let (env, path) = completed();
    let git = |args: &[&str], folder: &std::path::Path| {
        let mut command = Command::new("git");
        command.args(args).current_dir(folder).env("HOME", env.root());
        command.env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "t").env(format!("GIT_{role}_EMAIL"), "t@t");
        }
        assert!(command.output().unwrap().status.success(), "git {args:?}");
    };
    git(&["init", "-q"], &env.workspace());
    git(&["add", "-A"], &env.workspace());
    git(&["commit", "-qm", "work"], &env.workspace());
    let clone = env.root().join("clone");
    git(&["clone", "-q", env.workspace().to_str().unwrap(), clone.to_str().unwrap()], &env.root());
    let config = clone.join("ralph.toml");
    let args = ["-c", config.to_str().unwrap(), "verify", path.to_str().unwrap(), "--rerun"];
    env.ralph(&args).expect(0).says("verified: the required validator accepts");
    std::fs::write(clone.join("done"), "changed").unwrap();
    env.ralph(&args).expect(1).says("the workspace is not what was accepted");
}

#[test]
fn a_key_within_reach_of_the_agent_signs_nothing() {
    let mut env = environment();
    let config = env.workspace().join("config");
    env.var("XDG_CONFIG_HOME", config.to_str().unwrap());
    env.ralph(&["receipt", "key"]).expect(78).says("lies in the workspace");
}
