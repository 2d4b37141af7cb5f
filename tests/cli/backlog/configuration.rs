//! Mistakes in `[backlog]` and in the backlog itself.

use super::{environment, feature, feature_list, features};

#[test]
fn mistakes_in_the_table_are_shown_where_they_are() {
    let env = features(&[feature("a", 1, &[])]);
    let text = env.read("ralph.toml");
    for (from, to, expected) in [
        ("kind = \"json\"", "kind = \"jsn\"", "there is no kind of backlog called \"jsn\""),
        ("path = \"feature-list.json\"", "path = \"../x.json\"", "a file inside the workspace"),
        ("path = \"feature-list.json\"", "", "`path` is missing"),
        ("kind = \"json\"\n", "", "`kind` is missing"),
        ("kind = \"json\"\n", "kind = \"json\"\norder = \"highest\"\n", "in_progress_then_highest"),
        ("bookkeeping = [\"order\"]", "bookkeeping = [\"[\"]", "run.bookkeeping"),
    ] {
        env.write("ralph.toml", text.replacen(from, to, 1));
        for command in [&["config", "check"][..], &["run"]] {
            let ended = env.ralph(command).expect(78);
            ended.says(expected).says("ralph.toml:");
        }
        assert_eq!(env.agent.calls(), 0);
    }
}

#[test]
fn mistakes_in_the_backlog_are_shown_where_they_are_and_start_nothing() {
    let broken = feature_list(&[feature("a", 1, &[])]).replace("\"pending\"", "\"done\"");
    for (content, expected) in [
        (feature_list(&[feature("a", 1, &["b"]), feature("b", 1, &["a"])]), "dependency cycle"),
        (feature_list(&[feature("a", 1, &["nobody"])]), "depends on `nobody`"),
        (broken, "unknown status `done`"),
        (feature_list(&[feature("a", 1, &[]), feature("a", 1, &[])]), "the id is used twice"),
        ("{\"features\": [".to_owned(), "invalid syntax"),
    ] {
        let env = environment("json", "feature-list.json", "");
        env.write("feature-list.json", content);
        for command in [&["config", "check"][..], &["doctor"], &["run"], &["next"]] {
            let ended = env.ralph(command).expect(78);
            ended.says(expected).says("feature-list.json:");
        }
        assert_eq!(env.agent.calls(), 0);
        assert!(!env.has_state(), "a mistake changes nothing");
    }
}

#[test]
fn a_backlog_that_is_missing_or_empty_is_a_mistake() {
    let env = environment("json", "feature-list.json", "");
    env.run().expect(78).says("ralph.toml:").says("backlog.path").says("no backlog file");
    env.write("feature-list.json", feature_list(&[]));
    env.run().expect(78).says("the backlog has no items");
}

#[test]
fn show_has_every_value_with_its_source() {
    let env = features(&[feature("a", 1, &[])]);
    let shown = env.ralph(&["config", "show"]).expect(0);
    for line in [
        "backlog.kind = \"json\"",
        "backlog.path = ",
        "backlog.agent_completions = \"revert\"",
        "run.bookkeeping = ",
    ] {
        shown.says(line);
    }
    env.config("");
    let shown = env.ralph(&["config", "show"]).expect(0);
    assert!(!shown.stdout.contains("backlog"), "{}", shown.stdout);
    env.ralph(&["next"]).expect(78).says("[backlog]");
}

#[test]
fn doctor_says_that_no_item_is_in_progress_when_it_runs_the_checks() {
    let env = environment("json", "feature-list.json", "[completion]\nbaseline = \"must_fail\"\n");
    env.write("feature-list.json", feature_list(&[feature("a", 1, &[])]));
    // Accepts as long as no item is in progress.
    let config =
        env.read("ralph.toml").replace("ls made-*", "! grep in_progress feature-list.json");
    env.write("ralph.toml", config);
    env.ralph(&["doctor"]).expect(0).says("warn  baseline").says("no item is in progress here");
    env.agent
        .default_call()
        .script(": > made-a; sed -i s/in_progress/pending/ feature-list.json\n");
    // What the run finds is another matter.
    let ended = env.ralph(&["run", "--max-iterations", "1"]);
    assert_ne!(ended.code, Some(78), "{ended:?}");
    assert_eq!(env.agent.calls(), 1);
}
