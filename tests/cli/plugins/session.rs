//! `plugin run`.

use std::fs;
use std::path::Path;

use crate::environment::TestEnvironment;

/// The example of a program, whose agent is this shell script.
fn example(bot: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/process-plugin");
    for name in ["plugin.py", "ralph.toml", "template/notes.md"] {
        env.write(name, fs::read(from.join(name)).unwrap());
    }
    let config = env.read("ralph.toml").replace("\"../bot.sh\"", "\"bot.sh\"");
    env.write("ralph.toml", config);
    fs::create_dir(env.path("here")).unwrap();
    env.write("here/bot.sh", bot);
    env
}

#[test]
fn frames_are_shown_with_direction_kind_and_keys_and_without_secrets() {
    let mut env = example("cat; echo; echo made > made; echo ::cost 0.25\n");
    env.var("MY_TOKEN", "abcdefghijkl1234");
    let prompt = "Use abcdefghijkl1234.";
    let shown = env.ralph(&["plugin", "run", "python", "-p", prompt, "--frames", "--in", "here"]);
    let shown = shown.expect(0).stdout;
    for part in [
        "> hello          ",
        "< hello          name=\"process-plugin\"",
        "kind=\"agent\"  name=\"shell\"",
        "> call           call=1",
        "method=\"run\"",
        "task.prompt=\"Use ***.\"",
        " variables)",
        "< event          call=1",
        "event.type=\"text\"",
        "event.text=\"Use ***.",
        "< done           call=1",
        "> close",
        ". its process ended with exit 0",
        "done in ",
        "cost         $0.25",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    // Of the two sessions only that with the prompt is shown.
    assert_eq!(shown.matches("> hello ").count(), 1, "{shown}");
    assert!(!shown.contains("abcdefghijkl"), "{shown}");
    assert_eq!(env.read("here/made"), "made\n");
    assert!(!env.has_state());
}

#[test]
fn a_session_works_in_a_folder_that_is_deleted() {
    let env = example("");
    let set = "agent.config.program=[\"sh\", \"-c\", \"pwd; exit 3\"]";
    let shown = env.ralph(&["plugin", "run", "python/shell", "-p", "x", "--set", set]).expect(1);
    shown.says("failed after ").says("crashed: ").says("sh ended with exit 3");
    let folder = shown.stdout.lines().next().unwrap();
    assert!(folder.starts_with('/') && !Path::new(folder).exists(), "{folder}");
}

#[test]
fn what_keeps_it_from_being_built_is_shown_with_its_frames() {
    let env = example("");
    let args = ["plugin", "run", "python", "-p", "x", "--frames", "--set", "agent.config.x=1"];
    let shown = env.ralph(&args).expect(78);
    shown.says("< refused        instance=1").says("agent.config.x: unknown key");
    env.ralph(&["plugin", "run", "none", "-p", "x"]).expect(64).says("no [plugins.none]");
    let args = ["plugin", "run", "python", "-p", "x", "--in", "nowhere"];
    env.ralph(&args).expect(64).says("--in nowhere: ");
    env.ralph(&["plugin", "run", "python/none", "-p", "x"]).expect(78).says("no agent `none`");
}
