//! Workspaces that came from a template, and what `run --restart` makes of them.

use std::fs;
use std::path::PathBuf;

use crate::environment::TestEnvironment;

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

/// A configuration whose workspace `made/it` is a copy of `template`.
fn templated() -> TestEnvironment {
    let env = TestEnvironment::new();
    let config = env
        .read("ralph.toml")
        .replace("[run]\n", "[run]\ntemplate = \"template\"\nworkspace = \"made/it\"\n");
    env.write("ralph.toml", config);
    env.write("template/start.txt", "start\n");
    env.agent.default_call().script("echo changed >> start.txt; touch done\n").out(DONE);
    env
}

/// Workspaces that were moved aside, oldest first.
fn aside(env: &TestEnvironment) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(env.path("made"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|name| name != "it"))
        .collect();
    found.sort();
    found
}

#[test]
fn restart_renews_a_workspace_that_came_from_its_template_and_deletes_nothing() {
    let env = templated();
    env.run().expect(0);
    assert!(aside(&env).is_empty());
    env.write("made/it/thesis.tex", "a person's");
    for times in 1..=3 {
        let ended = env.ralph(&["run", "--restart"]).expect(0);
        let aside = aside(&env);
        assert_eq!(aside.len(), times);
        let newest = aside.iter().find(|path| ended.stderr.contains(&path.display().to_string()));
        let newest = newest.unwrap_or_else(|| panic!("{}", ended.stderr));
        ended.says("template");
        // Said before anything begins.
        let renewed = ended.stderr.find(&newest.display().to_string()).unwrap();
        assert!(renewed < ended.stderr.find("Iteration 1").unwrap());
        assert_eq!(fs::read_to_string(newest.join("start.txt")).unwrap(), "start\nchanged\n");
        assert_eq!(env.read("made/it/start.txt"), "start\nchanged\n", "made anew, and worked in");
        assert!(!env.path("made/it/thesis.tex").exists());
    }
    let kept = aside(&env).into_iter().filter(|path| path.join("thesis.tex").exists());
    assert_eq!(kept.count(), 1);
    assert_eq!(env.agent.calls(), 4);
}

#[test]
fn a_workspace_that_is_a_persons_own_is_used_as_it_is() {
    let env = templated();
    env.write("made/it/start.txt", "mine\n");
    env.run().expect(0).says("made/it exists and is not recorded as a copy of its template");
    let ended = env.ralph(&["run", "--restart"]).expect(0);
    ended.says("To begin with the template, remove the workspace, then use `run --restart`");
    assert_eq!(env.read("made/it/start.txt"), "mine\nchanged\nchanged\n");
    assert!(aside(&env).is_empty());
    // So is one that was put in the place of what came from the template.
    fs::rename(env.path("made/it"), env.path("away")).unwrap();
    env.ralph(&["run", "--restart"]).expect(0);
    fs::remove_dir_all(env.path("made/it")).unwrap();
    env.write("made/it/start.txt", "mine again\n");
    env.ralph(&["run", "--restart"]).expect(0);
    assert_eq!(env.read("made/it/start.txt"), "mine again\nchanged\n");
    assert!(aside(&env).is_empty());
}

#[test]
fn says_how_to_begin_with_the_template_after_the_state_has_vanished() {
    let env = templated();
    let ended = env.run().expect(0);
    assert!(!ended.stderr.contains("not recorded"), "{}", ended.stderr);
    let state = env.status()["state_dir"].as_str().unwrap().to_owned();
    fs::remove_dir_all(state).unwrap();
    env.run().expect(0).says("remove the workspace, then use `run --restart`");
    fs::remove_dir_all(env.path("made/it")).unwrap();
    env.ralph(&["run", "--restart"]).expect(0);
    assert_eq!(env.read("made/it/start.txt"), "start\nchanged\n");
}

#[test]
fn nothing_is_renewed_unless_a_new_run_begins() {
    let env = templated();
    env.run().expect(0);
    env.ralph(&["run"]).expect(0).says("already completed");
    env.ralph(&["run", "--restart", "--dry-run"]).expect(0);
    let config = env.read("ralph.toml");
    env.write("ralph.toml", format!("{config}\n[nonsense]\nx = 1\n"));
    env.ralph(&["run", "--restart"]).expect(78);
    env.write("ralph.toml", config.replace("fake-agent", "no-agent"));
    env.ralph(&["run", "--restart"]).expect(69);
    assert!(aside(&env).is_empty());
    assert_eq!(env.read("made/it/start.txt"), "start\nchanged\n");
}

#[test]
fn a_workspace_with_the_configuration_in_it_stays_where_it_is() {
    let env = templated();
    env.run().expect(0);
    let config = env.read("ralph.toml").replace("workspace = \"made/it\"", "workspace = \".\"");
    let config = config.replace("template = \"template\"", "template = \"../../template\"");
    env.write("made/it/ralph.toml", &config);
    env.write("made/it/PROMPT.md", "# Task\n");
    env.ralph(&["-c", "made/it/ralph.toml", "run", "--restart"]).expect(0);
    assert!(aside(&env).is_empty());
}
