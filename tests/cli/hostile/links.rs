//! Links in the place of files that the orchestrator, which no sandbox confines, reads or writes.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;

use super::{PROMISE, WORK, completed, ends, hostile, prompt_given};
use crate::environment::TestEnvironment;

const SECRET: &str = "nobody-but-the-user-knows-this\n";

/// A folder of the user's outside the workspace, with a file in it.
fn private(env: &TestEnvironment) -> PathBuf {
    let folder = env.root().join("private");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("PROMPT.md"), SECRET).unwrap();
    folder
}

/// An agent that does `sabotage` in its first call, with `$private` being the user's folder.
fn sabotaged(env: &TestEnvironment, sabotage: &str) -> PathBuf {
    let private = private(env);
    env.agent.call(1).script(&format!("private='{}'\n{sabotage}\necho 1 > x\n", private.display()));
    env.agent.call(2).script(WORK).out(PROMISE);
    private
}

#[test]
pub(super) fn no_file_is_written_through_a_link_in_the_prompt_s_place() {
    for (what, sabotage) in [
        ("a file that is not there", "ln -sf \"$private/.bash_login\" PROMPT.md"),
        ("a small file", "ln -sf \"$private/PROMPT.md\" PROMPT.md"),
        ("a large file", "ln -sf \"$private/tool\" PROMPT.md"),
        ("a link to a link", "ln -s \"$private/new\" l; ln -sf l PROMPT.md"),
        ("a hard link", "ln -f \"$private/PROMPT.md\" PROMPT.md"),
    ] {
        for fixed in [false, true] {
            let env = hostile();
            if fixed {
                let config = env.read("ralph.toml");
                env.write(
                    "ralph.toml",
                    config.replace("[run]\n", "[run]\nprompt_editable = false\n"),
                );
            }
            let prompt = env.read("PROMPT.md");
            let private = sabotaged(&env, sabotage);
            let tool = fs::File::create(private.join("tool")).unwrap();
            tool.set_len(9 * 1024 * 1024).unwrap();
            let before = fs::metadata(private.join("PROMPT.md")).unwrap();
            let ended = env.run();
            assert_eq!(prompt_given(&env, 2), prompt, "{what}");
            assert_eq!(env.read("PROMPT.md"), prompt, "{what}");
            assert!(!env.path("PROMPT.md").is_symlink(), "{what}: a file again");
            let mut there: Vec<_> = fs::read_dir(&private)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            there.sort();
            assert_eq!(there, ["PROMPT.md", "tool"], "{what}");
            assert_eq!(fs::read_to_string(private.join("PROMPT.md")).unwrap(), SECRET, "{what}");
            let after = fs::metadata(private.join("PROMPT.md")).unwrap();
            assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()), "{what}");
            assert_eq!(after.nlink(), 1, "{what}");
            assert_eq!(fs::metadata(private.join("tool")).unwrap().len(), 9 * 1024 * 1024);
            let made: &[&str] =
                if what == "a link to a link" { &["done", "l", "x"] } else { &["done", "x"] };
            ends(&env, what, &ended, completed(2, made));
        }
    }
}

#[test]
pub(super) fn nothing_is_read_into_the_next_prompt_through_a_link() {
    for (what, sabotage) in [
        ("a file of the user", "ln -sf \"$private/PROMPT.md\" PROMPT.md"),
        ("the environment", "ln -sf /proc/self/environ PROMPT.md"),
        ("the key", "ln -sf \"$HOME\"/.local/state/ralph-orchestrator/*/key PROMPT.md"),
    ] {
        let mut env = hostile();
        env.var("NOT_FOR_AGENTS", SECRET.trim());
        let prompt = env.read("PROMPT.md");
        sabotaged(&env, sabotage);
        let ended = env.run();
        ended.says("is a link").says("it was restored");
        assert_eq!(prompt_given(&env, 2), prompt, "{what}");
        ends(&env, what, &ended, completed(2, &["done", "x"]));
    }
}

#[test]
pub(super) fn a_folder_on_the_way_to_the_prompt_that_became_a_link_is_not_followed() {
    for (what, sabotage) in [
        ("a link", "mv tasks moved; ln -s \"$private\" tasks"),
        ("a link to nothing", "mv tasks moved; ln -s \"$private/none\" tasks"),
    ] {
        let env = hostile();
        let config = env.read("ralph.toml");
        env.write("ralph.toml", config.replace("[run]\n", "[run]\nprompt = \"tasks/PROMPT.md\"\n"));
        let prompt = env.read("PROMPT.md");
        env.write("tasks/PROMPT.md", &prompt);
        let private = sabotaged(&env, sabotage);
        let ended = env.run();
        assert_eq!(prompt_given(&env, 2), prompt, "{what}");
        assert_eq!(fs::read_to_string(private.join("PROMPT.md")).unwrap(), SECRET, "{what}");
        assert_eq!(fs::read_dir(&private).unwrap().count(), 1, "{what}");
        assert!(!env.path("tasks").is_symlink(), "{what}");
        let aside: Vec<String> = fs::read_dir(env.workspace())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("tasks"))
            .collect();
        let mut made: Vec<&str> = aside.iter().map(String::as_str).collect();
        made.extend(["done", "moved", "x"]);
        ends(&env, what, &ended, completed(2, &made));
    }
}

#[test]
pub(super) fn a_link_made_between_two_starts_gives_way_to_what_the_run_knew() {
    for hard in [false, true] {
        let env = hostile();
        let private = private(&env);
        let prompt = env.read("PROMPT.md");
        env.agent.call(1).script("echo 1 > x\n");
        env.agent.call(2).script(WORK).out(PROMISE);
        env.ralph(&["run", "--max-iterations", "1"]).expect(1);
        fs::remove_file(env.path("PROMPT.md")).unwrap();
        if hard {
            fs::hard_link(private.join("PROMPT.md"), env.path("PROMPT.md")).unwrap();
        } else {
            symlink(private.join("PROMPT.md"), env.path("PROMPT.md")).unwrap();
        }
        let ended = env.run();
        ended.says("PROMPT.md").says("link").says("it was put back");
        assert_eq!(fs::read_to_string(private.join("PROMPT.md")).unwrap(), SECRET);
        assert_eq!(env.read("PROMPT.md"), prompt);
        ends(&env, "put back", &ended, completed(2, &["done", "x"]));
    }
}

#[test]
pub(super) fn a_link_that_the_user_made_before_the_run_is_followed_once() {
    let env = hostile();
    let private = private(&env);
    let shared = env.root().join("shared.md");
    fs::rename(env.path("PROMPT.md"), &shared).unwrap();
    symlink("../shared.md", env.path("PROMPT.md")).unwrap();
    let prompt = fs::read_to_string(&shared).unwrap();
    env.agent.call(1).script(&format!(
        "echo more >> PROMPT.md; ln -sf '{}/PROMPT.md' PROMPT.md; echo 1 > x\n",
        private.display()
    ));
    env.agent.call(2).script(&format!(
        "ln -sf ../shared.md PROMPT.md; printf '\\nTASK_COMPLETE\\n' >> PROMPT.md\n{WORK}"
    ));
    let ended = env.run();
    assert_eq!(prompt_given(&env, 2), format!("{prompt}more\n"));
    ends(&env, "linked", &ended, completed(2, &["done", "x"]));
    env.run().expect(0).says("already completed");
}
