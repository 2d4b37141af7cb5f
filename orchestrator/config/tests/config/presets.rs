//! A preset gives values where nobody else does.

use std::time::Duration;

use proptest::prelude::*;

use crate::Project;

#[test]
fn its_values_come_after_the_defaults_and_before_every_file() {
    let project = Project::new("preset = 'careful'\nlimits.max_iterations = 9")
        .user("[limits]\nmax_failures = 8")
        .set("limits.max_stagnant", "7");
    let loaded = project.loaded();
    let config = &loaded.config;
    assert_eq!(config.preset.as_deref(), Some("careful"));
    assert_eq!(config.run.delay, Duration::from_secs(7));
    assert_eq!(config.validators[0].kind, "evidence-files");
    assert_eq!(
        (config.limits.max_iterations, config.limits.max_failures, config.limits.max_stagnant),
        (Some(9), Some(8), Some(7))
    );
    assert_eq!(loaded.origin("run.delay").as_deref(), Some("preset careful"));
    assert_eq!(loaded.origin("validator.0.kind").as_deref(), Some("preset careful"));
    assert_eq!(
        project.without_folder(&loaded.origin("limits.max_iterations").unwrap()),
        "ralph.toml:2:25"
    );
    assert!(!loaded.set_by_user("run.delay"), "only the preset sets it");
    assert!(loaded.set_by_user("preset") && loaded.set_by_user("limits.max_iterations"));
}

#[test]
fn its_paths_are_relative_to_the_folder_of_the_file() {
    let project = Project::new("preset = 'careful'");
    assert_eq!(project.loaded().config.run.prompt, Some(project.path("tasks/TASK.md")));
}

#[test]
fn every_layer_can_name_it_and_the_last_one_wins() {
    let in_user_file = Project::trusting("").user("preset = 'careful'");
    assert_eq!(in_user_file.loaded().config.run.delay, Duration::from_secs(7));
    let by_variable =
        Project::trusting("preset = 'careful'").var("RALPH_ORCHESTRATOR_PRESET", "fast");
    assert_eq!(by_variable.loaded().config.run.delay, Duration::ZERO);
    assert_eq!(by_variable.loaded().config.limits.max_failures, Some(5), "nothing of the other");
    let by_set = Project::trusting("preset = 'fast'").set("preset", "careful");
    assert_eq!(by_set.loaded().config.run.delay, Duration::from_secs(7));
}

#[test]
fn an_unknown_one_is_a_mistake_with_its_place() {
    for (text, help) in [
        ("preset = 'carefull'", "did you mean \"careful\"?"),
        ("preset = 'x'", "known are: careful, fast"),
    ] {
        let errors = Project::new(text).load().unwrap_err();
        let [error] = errors.errors() else { panic!("{errors}") };
        assert_eq!(error.key, "preset");
        assert!(error.message.starts_with("there is no preset called"), "{error:?}");
        assert_eq!(error.help.as_deref(), Some(help));
        assert!(error.location.to_string().ends_with("ralph.toml:1:10"), "{error:?}");
    }
}

#[test]
fn another_type_is_a_mistake() {
    for text in ["preset = 1", "preset = ['careful']", "[preset]\nname = 'careful'"] {
        let errors = Project::trusting(text).load().unwrap_err();
        assert_eq!(errors.errors().len(), 1, "{text}: {errors}");
    }
}

#[test]
fn a_table_replaced_by_flags_hides_that_of_the_preset() {
    let mut project = Project::trusting("preset = 'careful'");
    project.sources.replaced = Some("validator");
    assert!(project.loaded().config.validators.is_empty());
}

#[test]
fn what_was_resolved_needs_no_preset_any_more() {
    let first = Project::new("preset = 'careful'").loaded();
    let mut again = Project::new(first.resolved_toml());
    again.sources.defaults.presets[0].toml = "run.delay = '9h'".to_owned();
    assert_eq!(again.loaded().config, first.config);
}

proptest! {
    #[test]
    fn it_never_decides_what_a_file_sets(delay in 0_u64..1000, iterations in 1_u32..1000) {
        let text = format!(
            "preset = 'careful'\n[run]\ndelay = '{delay}s'\n[limits]\nmax_iterations = {iterations}"
        );
        let config = Project::new(text).loaded().config;
        prop_assert_eq!(config.run.delay, Duration::from_secs(delay));
        prop_assert_eq!(config.limits.max_iterations, Some(iterations.into()));
        prop_assert_eq!(config.limits.max_failures, Some(1));
    }
}

/// A run that is resumed reads the configuration that it began with, in which the values of the preset are written.
#[test]
fn where_no_preset_is_known_its_name_is_no_mistake() {
    let project = Project::new("preset = 'careful'");
    let stored = project.loaded().resolved_toml();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, &stored).unwrap();
    let sources = ralph_orchestrator_config::Sources { file, ..Default::default() };
    let again = ralph_orchestrator_config::load(&sources).unwrap();
    assert_eq!(again.config, project.loaded().config);
}
