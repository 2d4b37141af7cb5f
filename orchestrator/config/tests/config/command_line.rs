//! What the command line says beside `--set`: flags, what follows from them, and runs without a file.

use ralph_orchestrator_config::{Flag, SourceLocation, Sources, load};

use crate::{Project, defaults};

fn flag(name: &str, key: &'static str, text: &str) -> Flag {
    Flag { name: name.to_owned(), key, text: text.to_owned() }
}

#[test]
fn flags_come_last_and_are_named() {
    let Project { dir: _dir, mut sources } = Project::trusting("limits.max_cost_usd = 1");
    sources.sets.push(("limits.max_cost_usd".into(), "2".into()));
    sources.flags = vec![flag("--max-cost", "limits.max_cost_usd", "3")];
    let loaded = load(&sources).unwrap();
    assert_eq!(loaded.config.limits.max_cost_usd.unwrap().dollars(), 3.0);
    assert_eq!(loaded.origin("limits.max_cost_usd").unwrap(), "--max-cost");
    assert!(loaded.set_by_user("limits.max_cost_usd"));
    sources.flags = vec![flag("--max-cost", "limits.max_cost_usd", "much")];
    let errors = load(&sources).unwrap_err();
    let flag = Some("--max-cost".to_owned());
    assert_eq!(errors.errors()[0].location, SourceLocation::CommandLine { flag });
}

#[test]
fn what_is_implied_gives_way_to_every_file_and_is_set_by_nobody() {
    let Project { dir: _dir, mut sources } = Project::trusting("limits.max_iterations = 7");
    let ten = || "10".to_owned();
    sources.implied = vec![("limits.max_iterations", ten()), ("limits.max_cost_usd", ten())];
    let loaded = load(&sources).unwrap();
    assert_eq!(loaded.config.limits.max_iterations, Some(7));
    assert_eq!(loaded.config.limits.max_cost_usd.unwrap().dollars(), 10.0);
    assert!(loaded.set_by_user("limits.max_iterations"));
    assert!(!loaded.set_by_user("limits.max_cost_usd"));
}

#[test]
fn a_table_of_a_flag_replaces_that_of_files_and_variables_but_not_of_set() {
    let Project { dir: _dir, mut sources } = Project::trusting(
        "[agent]\nadapter = 'a'\nfallback = ['spare']\nconfig = { x = 1 }\n[agents.spare]\nadapter = 'b'",
    );
    sources.vars = [("RALPH_AGENT__CONFIG__Y".to_owned(), "2".to_owned())].into();
    sources.sets.push(("agent.config.z".into(), "3".into()));
    sources.flags = vec![flag("-- c", "agent", "{ adapter = 'c' }")];
    sources.replaced = Some("agent");
    let agent = load(&sources).unwrap().config.agent;
    assert_eq!(agent.adapter, "c");
    assert!(agent.fallback.is_empty());
    assert_eq!(agent.config, serde_json::json!({"z": 3}));
}

#[test]
fn without_a_file_paths_start_at_the_folder() {
    let project = Project::trusting("");
    let folder = project.dir.path().join("elsewhere");
    let mut sources =
        Sources { without_file: Some(folder.clone()), defaults: defaults(), ..Sources::default() };
    let errors = load(&sources).unwrap_err();
    assert_eq!(errors.errors()[0].location, SourceLocation::CommandLine { flag: None });
    let help = errors.errors()[0].help.as_ref().unwrap();
    assert!(help.contains("--check \"cargo test\""), "{help}");
    sources.flags = vec![flag("--check", "validator", "[{ kind = 'command' }]")];
    let loaded = load(&sources).unwrap();
    assert_eq!(loaded.dir(), folder);
    assert_eq!(loaded.config.run.workspace, folder);
    // What an earlier start has kept is read in its place.
    std::fs::write(project.path("kept.toml"), "limits.max_tokens = 5").unwrap();
    sources.file = project.path("kept.toml");
    let loaded = load(&sources).unwrap();
    assert_eq!((loaded.config.limits.max_tokens, loaded.dir()), (Some(5), folder.as_path()));
    assert!(!loaded.set_by_user("limits.max_tokens"), "it may have been a default then");
}
