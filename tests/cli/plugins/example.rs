//! `examples/process-plugin` as it is shipped.

use std::path::Path;

use crate::environment::{TestEnvironment, of_run};

/// The example's files in the test's workspace, which the example has below it.
fn example() -> TestEnvironment {
    let env = TestEnvironment::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/process-plugin");
    for name in ["plugin.py", "bot.sh", "ralph.toml", "template/notes.md"] {
        env.write(name, std::fs::read(from.join(name)).unwrap());
    }
    env
}

#[test]
fn the_example_completes_in_two_iterations() {
    let env = example();
    let ended = env.run().expect(0);
    let status = env.status();
    assert_eq!(status["iterations"], 2, "{}", ended.stderr);
    assert!(!env.read("work/notes.md").contains("TODO"));
    assert_eq!(of_run(&env.root()), Vec::<i32>::new());
    env.run().expect(0).says("already completed");
}

#[test]
fn its_validator_says_what_is_missing() {
    let env = example();
    env.write("bot.sh", "cat >/dev/null\necho '<promise>COMPLETE: not at all</promise>'\n");
    let ended = env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    ended.says("notes.md:3 still has TODO");
}

#[test]
fn a_validator_that_was_changed_decides_nothing() {
    let env = example();
    // The bot has the plugin accept everything.
    env.write(
        "bot.sh",
        "cat >/dev/null\nsed -i 's/if found:/if False:/' ../plugin.py\n\
                         echo '<promise>COMPLETE: not at all</promise>'\n",
    );
    let ended = env.ralph(&["run", "--max-iterations", "1"]);
    ended.says("its files changed since it was loaded");
    assert_ne!(env.status()["latch"]["state"], "completed");
    // Neither does it when the run goes on.
    env.run().expect(65).says("another content of the plugin behind `python`");
}

#[test]
fn unknown_keys_are_reported_by_the_plugin_at_their_place() {
    let env = example();
    let text = env.read("ralph.toml").replace("files =", "flies =");
    env.write("ralph.toml", text);
    let ended = env.run().expect(78);
    ended.says("flies").says("ralph.toml:22:1");
}
