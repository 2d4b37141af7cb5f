//! What `init --preset --demo` writes completes without an account.

use std::fs;

use crate::environment::TestEnvironment;

/// An empty folder, which is the workspace.
fn empty() -> TestEnvironment {
    let env = TestEnvironment::new();
    for file in ["ralph.toml", "PROMPT.md"] {
        fs::remove_file(env.path(file)).unwrap();
    }
    env
}

/// The demonstration of a preset, which its command completes.
fn demonstration(name: &str, command: &[&str]) -> TestEnvironment {
    let env = empty();
    let written = env.ralph(&["init", "--preset", name, "--demo"]).expect(0);
    assert!(written.stdout.contains(&command.join(" ")), "the next command: {}", written.stdout);
    let ended = env.ralph(command).expect(0);
    ended.says("accepted by tests");
    assert_eq!(env.agent.calls(), 0, "a recording works, and no agent");
    assert!(env.path("greet.sh").is_file());
    env
}

#[test]
fn ralph_is_rejected_once_and_then_leaves_evidence() {
    let env = demonstration("ralph", &["run"]);
    assert_eq!(env.status()["latch"]["rejections"], 1);
    assert!(env.read("PROMPT.md").ends_with("- [x] TASK_COMPLETE\n"));
}

#[test]
fn the_pure_loop_works_on_a_plan() {
    let env = demonstration("pure-loop", &["go", "1"]);
    let progress = env.read(".ralph/ralph-1/progress.md");
    assert_eq!(progress.matches("\n## Iteration ").count(), 2, "those of the agent: {progress}");
    assert!(!env.read(".ralph/ralph-1/plan.md").contains("- [ ]"));
    let why = env.ralph(&["why", "--task", "1"]).expect(0);
    why.says("the work is proved done. `ralph-orchestrator --task 1 run");
}

#[test]
fn ada_prepares_the_project_in_a_repository_of_its_own_and_works_on_a_feature() {
    let env = demonstration("ada", &["run"]);
    assert!(env.path(".git").is_dir(), "in this folder, and in no other");
    assert!(env.read("feature-list.json").contains("\"status\": \"completed\""));
    assert_eq!(env.read("claude-progress.txt").matches("Action: session_ended").count(), 3);
}

#[test]
fn autocoder_works_on_a_feature_and_keeps_its_notes_from_the_agent() {
    let env = demonstration("autocoder", &["run"]);
    assert!(env.read("feature_list.json").contains("\"passes\": true"));
    assert!(!env.path("claude-progress.txt").exists());
}

#[test]
fn a_folder_with_anything_in_it_is_left_alone() {
    let env = empty();
    env.write("mine", "mine");
    let refused = env.ralph(&["init", "--preset", "ada", "--demo"]).expect(64);
    refused.says("is not empty").says("needs an empty folder");
    assert_eq!(fs::read_dir(env.workspace()).unwrap().count(), 1);
}

#[test]
fn a_demonstration_that_commits_does_not_do_so_in_a_repository_of_the_user() {
    let env = empty();
    fs::create_dir(env.root().join(".git")).unwrap();
    let refused = env.ralph(&["init", "--preset", "ada", "--demo"]).expect(64);
    refused.says("is in a git repository").says("outside of any repository");
    assert_eq!(fs::read_dir(env.workspace()).unwrap().count(), 0);
}

#[test]
fn an_unknown_preset_is_refused_with_the_nearest_name() {
    let env = empty();
    env.ralph(&["init", "--preset", "adda"]).expect(64).says("did you mean \"ada\"?");
    env.ralph(&["init", "--preset", "x"]).expect(64).says("ralph, pure-loop, ada, autocoder");
    assert_eq!(fs::read_dir(env.workspace()).unwrap().count(), 0);
}

#[test]
fn each_preset_writes_a_configuration_that_is_accepted_and_says_where_nothing_is_checked() {
    for name in ["ralph", "pure-loop", "ada", "autocoder"] {
        let env = empty();
        let args = ["init", "--preset", name, "--goal", "Write greet.sh", "--", "true"];
        let args = if name == "pure-loop" { &args[..3] } else { &args[..] };
        let written = env.ralph(args).expect(0);
        assert!(written.stdout.contains("NO test command was found"), "{}", written.stdout);
        let config = env.read("ralph.toml");
        assert!(config.contains(&format!("preset = \"{name}\"")), "{config}");
        let trusts = matches!(name, "ada" | "autocoder");
        assert_eq!(config.contains("\ntrust_agent = true"), trusts, "{config}");
        let show: &[&str] = if name == "pure-loop" {
            env.ralph(&["new", "Write greet.sh", "--test-command", "false"]).expect(0);
            &["config", "show", "--task", "1"]
        } else {
            &["config", "show"]
        };
        let checked = env.ralph(show).expect(0);
        assert!(checked.stdout.contains(&format!("preset {name}")), "{}", checked.stdout);
    }
}

#[test]
fn a_check_that_is_found_takes_the_place_of_trust() {
    for name in ["ralph", "ada", "autocoder"] {
        let env = empty();
        env.write("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\n");
        env.write("src/lib.rs", "");
        let args = ["init", "--preset", name, "--no-run", "--goal", "x", "--", "true"];
        let written = env.ralph(&args).expect(0).stdout;
        assert_eq!(written.contains("also needs three files"), name == "ralph", "{written}");
        let config = env.read("ralph.toml");
        assert!(config.contains("program = [\"cargo\", \"test\""), "{config}");
        assert!(!config.contains("trust_agent"), "{config}");
        assert_eq!(config.contains("evidence-files"), name == "ralph", "{config}");
    }
}

#[test]
fn the_list_of_an_older_autocoder_is_found() {
    let env = empty();
    env.write("feature_list.json", "[]\n");
    env.ralph(&["init", "--preset", "autocoder", "--goal", "x", "--", "true"]).expect(0);
    assert!(env.read("ralph.toml").contains("path = \"feature_list.json\""));
}
