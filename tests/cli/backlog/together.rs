//! A backlog together with git and with prompts of roles.

use super::{environment, feature, feature_list, statuses, worked};
use crate::git::git;

const MORE: &str = "[git]\ncommit = \"iteration\"\n";

#[test]
fn each_items_work_is_committed_and_no_process_of_git_holds_the_next_one_up() {
    let env = environment("json", "feature-list.json", MORE);
    let items = [feature("a", 3, &[]), feature("b", 2, &[]), feature("c", 1, &[])];
    env.write("feature-list.json", feature_list(&items));
    git(&env, &["init", "-qb", "main"]);
    git(&env, &["config", "user.name", "Ada User"]);
    git(&env, &["config", "user.email", "ada@example.org"]);
    git(&env, &["add", "feature-list.json", "PROMPT.md", "ralph.toml"]);
    git(&env, &["commit", "-qm", "first"]);
    env.run().expect(0).says("backlog 3/3 (100.0%): completed");
    assert_eq!(worked(&env), ["a", "b", "c"]);
    assert_eq!(git(&env, &["rev-list", "--count", "HEAD"]), "4", "one commit for each item");
    for name in ["a", "b", "c"] {
        git(&env, &["cat-file", "-e", &format!("HEAD:made-{name}")]);
    }
    assert!(statuses(&env).iter().all(|(_, status)| status == "completed"));
}

#[test]
fn an_item_follows_the_prompt_of_the_role() {
    let env = environment("json", "feature-list.json", "[prompts]\n");
    env.write("feature-list.json", feature_list(&[feature("a", 1, &[])]));
    std::fs::create_dir(env.path("prompts")).unwrap();
    env.write("prompts/coding.md", "You write code.\n");
    env.run().expect(0);
    let given = String::from_utf8(env.agent.stdin(1)).unwrap();
    assert!(given.starts_with("You write code.\n"), "{given}");
    assert!(given.contains("# Current item: Make a\n"), "{given}");
}

#[test]
fn an_unfinished_backlog_is_not_called_done() {
    let env = environment("json", "feature-list.json", "[limits]\nmax_iterations = 1\n");
    env.write("feature-list.json", feature_list(&[feature("a", 2, &[]), feature("b", 1, &[])]));
    env.run().expect(1).says("max_iterations");
    let why = env.ralph(&["why"]).expect(0);
    assert!(!why.stdout.contains("nothing: the work is proved done"), "{}", why.stdout);
    why.says("limits.max_iterations");
}
