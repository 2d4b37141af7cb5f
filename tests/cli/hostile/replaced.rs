//! Agents that put another folder, or a link, in the place of their workspace. Theirs and the other lie
//! in the test's own folder, and all that is ever started says no more than where it is.

use std::fs;
use std::path::PathBuf;

use super::{PROMISE, WORK, hostile};
use crate::environment::{Ended, TestEnvironment};

/// A workspace `w` and another folder beside it, a configuration outside both, and a validator that
/// writes where it is into `places`.
struct Exchange {
    env: TestEnvironment,
    other: PathBuf,
}

const BY_A_LINK: &str = "mv w w.old; ln -s other w";
const BY_A_FOLDER: &str = "mv w w.old; mv other w";

/// A check in a checkout cannot move the workspace.
const IN_WORKSPACE: &str = "[validation]\nwhere = \"workspace\"\n";

impl Exchange {
    fn new(validators: &str) -> Self {
        let env = hostile();
        let root = env.root();
        let other = root.join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("PROMPT.md"), "# Task of somebody else\n").unwrap();
        // It would accept there.
        fs::write(other.join("done"), "").unwrap();
        let agent = env.agent.program();
        let config = format!(
            "[run]\nworkspace = \"w\"\nprompt = \"w/PROMPT.md\"\ndelay = \"0s\"\n\
             [agent]\nadapter = \"command\"\nunmetered = true\n\
             [agent.config]\nprogram = [\"{}\"]\n{}",
            agent.display(),
            validators.replace("@ROOT@", &root.display().to_string())
        );
        fs::write(root.join("ralph.toml"), config).unwrap();
        Self { env, other }
    }

    /// Runs from outside of the workspace.
    fn run(&self, more: &[&str]) -> Ended {
        let config = self.env.root().join("ralph.toml").display().to_string();
        let mut command = self.env.command(&[&["-c", &config, "run"], more].concat());
        command.current_dir(self.env.root());
        let output = command.output().unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn sh(&self, script: &str) {
        let script = format!("cd '{}' && {{ {script}; }}", self.env.root().display());
        assert!(std::process::Command::new("sh").args(["-c", &script]).status().unwrap().success());
    }

    /// Where validators were.
    fn places(&self) -> String {
        fs::read_to_string(self.env.root().join("places")).unwrap_or_default()
    }

    fn workspace(&self) -> String {
        self.env.workspace().display().to_string()
    }
}

const WHERE: &str = "[[validator]]\nkind = \"command\"\nname = \"where\"\n\
                     program = [\"sh\", \"-c\", \"pwd -P >> '@ROOT@/places'; test -e done\"]\n\
                     [completion]\nbaseline = \"off\"\n";

#[test]
fn an_exchanged_workspace_is_refused_and_nothing_is_started_in_it() {
    for exchange in [BY_A_LINK, BY_A_FOLDER] {
        let stage = Exchange::new(WHERE);
        stage
            .env
            .agent
            .default_call()
            .script(&format!("cd '{}'; {exchange}\n", stage.env.root().display()))
            .out(PROMISE);
        let ended = stage.run(&[]).expect(65);
        ended.says(&stage.workspace()).says("run --restart");
        assert_eq!(stage.env.agent.calls(), 1, "{exchange}");
        assert_eq!(stage.places(), "", "{exchange}: no validator ran anywhere");
        // Nor by the next start.
        stage.run(&[]).expect(65).says(&stage.workspace());
        assert_eq!((stage.env.agent.calls(), stage.places().as_str()), (1, ""), "{exchange}");
        // Put back, it goes on.
        let back =
            if exchange == BY_A_LINK { "rm w; mv w.old w" } else { "mv w other; mv w.old w" };
        stage.sh(back);
        stage.env.agent.default_call().script("touch done\n").out(PROMISE);
        stage.run(&[]).expect(0).says("completed");
        assert_eq!(stage.env.agent.cwd(2), stage.env.workspace());
    }
}

#[test]
fn a_workspace_exchanged_between_two_starts_is_refused_until_a_restart() {
    for exchange in [BY_A_LINK, BY_A_FOLDER] {
        let stage = Exchange::new(WHERE);
        stage.env.agent.default_call().script("echo $n > x\n");
        stage.run(&["--max-iterations", "1"]).expect(1);
        stage.sh(exchange);
        let ended = stage.run(&[]).expect(65);
        ended.says(&stage.workspace()).says("run --restart");
        assert_eq!((stage.env.agent.calls(), stage.places().as_str()), (1, ""), "{exchange}");
        // The user says that it is meant.
        let there = if exchange == BY_A_LINK { stage.other.clone() } else { stage.env.workspace() };
        stage.run(&["--restart", "--max-iterations", "1"]).expect(1);
        assert_eq!(stage.env.agent.cwd(2), there);
        stage.run(&["--max-iterations", "2"]).expect(1).says("resumed");
        assert_eq!(stage.env.agent.cwd(3), there);
    }
}

#[test]
fn a_validator_that_exchanges_the_workspace_is_followed_by_no_other() {
    let exchange = "[[validator]]\nkind = \"command\"\nname = \"exchanges\"\n\
                    program = [\"sh\", \"-c\", \"cd '@ROOT@' && mv w w.old && ln -s other w\"]\n";
    let stage = Exchange::new(&format!("{exchange}{WHERE}{IN_WORKSPACE}"));
    stage.env.agent.default_call().script("touch done\n").out(PROMISE);
    stage.run(&[]).expect(65).says(&stage.workspace());
    assert_eq!(stage.places(), "");
}

#[test]
fn a_repeated_execution_is_not_in_another_folder() {
    let twice = "[[validator]]\nkind = \"command\"\nname = \"twice\"\npasses_required = 2\n\
                 program = [\"sh\", \"-c\", \"pwd -P >> '@ROOT@/places'; cd '@ROOT@'; \
                 test -e w.old || { mv w w.old; ln -s other w; }\"]\n";
    let stage = Exchange::new(&format!("{twice}{IN_WORKSPACE}"));
    stage.env.agent.default_call().script("touch done\n").out(PROMISE);
    stage.run(&[]).expect(65).says(&stage.workspace());
    assert_eq!(stage.places(), format!("{}\n", stage.workspace()));
}

#[test]
fn a_link_to_the_workspace_that_the_user_made_before_the_run_is_no_exchange() {
    let stage = Exchange::new(WHERE);
    stage.sh("mv w real; ln -s real w");
    stage.env.agent.call(1).script("echo 1 > x\n");
    stage.env.agent.call(2).script("touch done\n").out(PROMISE);
    stage.run(&["--max-iterations", "1"]).expect(1);
    stage.run(&[]).expect(0);
    assert_eq!(stage.env.agent.cwd(2), stage.env.root().join("real"));
    // Led elsewhere by an agent, it is one.
    let stage = Exchange::new(WHERE);
    stage.sh("mv w real; ln -s real w");
    let root = stage.env.root();
    let exchange = format!("cd '{}'; rm w; ln -s other w\n", root.display());
    stage.env.agent.call(1).script(&exchange).out(PROMISE);
    stage.env.agent.default_call().script("echo $n > x\n");
    stage.run(&["--max-iterations", "2"]);
    assert_eq!(stage.env.agent.cwd(2), root.join("real"), "where the run began");
    assert!(!stage.places().contains("other"), "{}", stage.places());
    let calls = stage.env.agent.calls();
    stage.run(&[]).expect(65);
    assert_eq!(stage.env.agent.calls(), calls);
}

#[test]
fn a_deleted_workspace_is_made_again_and_the_next_start_knows_it() {
    let env = hostile();
    let config = env.read("ralph.toml");
    env.agent.call(1).script("rm -rf \"$PWD\"\n").out(PROMISE);
    env.ralph(&["run", "--max-iterations", "1"]).expect(1).says("made again, empty");
    assert_eq!(env.records("workspace_made").len(), 1);
    env.write("ralph.toml", config);
    env.agent.call(2).script(WORK).out(PROMISE);
    env.run().expect(0);
}
