//! Backlogs whose format is a plugin's: `examples/backlog-plugin` as it is shipped, and plugins that misbehave.

use std::path::Path;

use serde_json::Value;

use crate::backlog::{CLAIM, series};
use crate::environment::{TestEnvironment, eventually, of_run};

const ROGUE: &str = include_str!("rogue_backlog.py");

/// The example's files in the test's workspace, which the example has below it.
fn example() -> TestEnvironment {
    let env = TestEnvironment::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/backlog-plugin");
    for name in ["plugin.py", "bot.sh", "check.sh", "ralph.toml"] {
        env.write(name, std::fs::read(from.join(name)).unwrap());
    }
    std::fs::create_dir(env.path("work")).unwrap();
    let list = std::fs::read(from.join("template/todo.txt")).unwrap();
    env.write("work/todo.txt", list);
    env.write("template/todo.txt", "");
    env
}

/// A workspace whose backlog is read by a plugin that misbehaves like this.
fn rogue(how: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let path = env.root().join("plugin.py");
    std::fs::write(&path, ROGUE).unwrap();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[plugins.rogue]\ncommand = [\"python3\", \"{}\", \"{how}\"]\n\
         [backlog]\nkind = \"rogue\"\npath = \"items\"\n\
         [agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"true\"]\n[limits]\nmax_iterations = 3\n",
        path.display()
    ));
    env.write("items", ITEMS);
    env.agent.default_call().out(CLAIM);
    env
}

const ITEMS: &str = "pending a it works\npending b it runs\n";

fn nothing_is_left(env: &TestEnvironment) {
    eventually("no process of the plugin", || of_run(&env.root()).is_empty());
}

#[test]
fn the_example_is_worked_in_its_order_to_the_end() {
    let env = example();
    env.ralph(&["next"]).expect(0).says("greeting  Write a greeting");
    env.ralph(&["next", "--explain"]).expect(0).says("farewell: waits for greeting (pending)");
    env.ralph(&["plugin", "list"]).expect(0).says("provides backlog todo-txt");
    env.ralph(&["config", "check"]).expect(0);
    let ended = env.run().expect(0);
    ended.says("all 2 items are complete");
    assert_eq!(
        env.read("work/todo.txt"),
        "# The farewell needs the greeting.\nx (B) Write a farewell id:farewell after:greeting\n  - farewell.txt is there\n\
         x (A) Write a greeting id:greeting\n  - greeting.txt is there\n"
    );
    assert_eq!(env.status()["backlog"]["items"]["completed"], 2);
    let started: Vec<Value> =
        series(&env).into_iter().filter(|record| record["kind"] == "item_started").collect();
    let items: Vec<&str> = started.iter().filter_map(|record| record["item"].as_str()).collect();
    assert_eq!(items, ["greeting", "farewell"]);
    nothing_is_left(&env);
    // What is added later is new work.
    env.ralph(&["add", "Say thanks", "--id", "thanks", "--after", "greeting"]).expect(0);
    assert!(env.read("work/todo.txt").ends_with("Say thanks id:thanks after:greeting\n"));
    env.ralph(&["add", "Another", "--description", "long"])
        .expect(64)
        .says("cannot store a description");
    env.run().expect(0).says("all 3 items are complete");
}

#[test]
fn an_agent_may_add_notes_and_everything_else_is_taken_back() {
    let env = example();
    let list = env.read("work/todo.txt");
    env.write(
        "bot.sh",
        "cat >/dev/null\n[ -e greeting.txt ] && exit\ntouch greeting.txt\n\
         sed -i 's/greeting.txt is there/anything goes/; s/^(B)/x (B)/; s/^# .*/# mine/' todo.txt\n\
         printf '  > it was hard\\n' >> todo.txt\n",
    );
    let ended = env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    ended.says("`criteria` of item `greeting` was edited; it was restored");
    ended.says("item `farewell` was set to completed; its status was restored");
    assert_eq!(env.read("work/todo.txt"), list + "  > it was hard\n");
    let guarded = series(&env).into_iter().any(|record| record["kind"] == "guarded");
    assert!(guarded);
}

#[test]
fn mistakes_are_shown_where_they_are_and_start_nothing() {
    let env = example();
    env.write("work/todo.txt", "  - lost\n(A) One id:a after:nobody\n");
    env.run().expect(78).says("todo.txt:1:1").says("without an item above it");
    env.write("work/todo.txt", "(A) One id:a after:nobody\n");
    env.ralph(&["next"]).expect(78).says("todo.txt:1:1").says("nobody");
    let text = env.read("ralph.toml");
    env.write("ralph.toml", text.replace("kind = \"todo\"", "kind = \"tudo\""));
    env.ralph(&["next"]).expect(78).says("tudo").says("did you mean `todo`?");
    env.write("ralph.toml", text.replace("kind = \"todo\"", "kind = \"todo/lines\""));
    env.ralph(&["next"]).expect(78).says("provides no backlog `lines`, but `todo/todo-txt`");
    env.write("ralph.toml", text.replace("kind = \"todo\"", "kind = \"todo/todo-txt\""));
    env.write("work/todo.txt", "(A) One id:a\n");
    env.ralph(&["next"]).expect(0).says("a  One");
}

#[test]
fn the_example_passes_the_conformance_tests() {
    let env = example();
    let ended = env.ralph(&["plugin", "test", "todo"]);
    ended.expect(0).says("backlog todo-txt").says("all checks passed");
}

#[test]
fn a_plugin_that_changes_more_than_it_should_writes_nothing() {
    for (how, says) in [
        ("criteria", "`criteria` of item `b` reads differently"),
        ("lose", "it has 1 items instead of 2"),
        ("add", "it has 3 items instead of 2"),
        ("ignore", "`status` of item `a` reads differently"),
        ("garbage text", "it wrote a text that it cannot read"),
    ] {
        let env = rogue(how);
        let ended = env.run();
        ended.says("the format `rogue` failed: ").says(says).says("nothing was written");
        assert_ne!(ended.code, Some(0), "{how}");
        assert_eq!(env.read("items"), ITEMS, "{how}");
        nothing_is_left(&env);
    }
}

#[test]
fn a_plugin_that_fails_is_named_and_nothing_is_written() {
    for (how, says) in [
        ("crash", "its process ended with exit 3"),
        ("garbage", "is not a frame"),
        ("huge", "at most 16777216 are allowed"),
        ("other answer", "without `backlog`"),
        ("no id", "it read an item without an id"),
        ("blocked", "a status that it says it cannot hold"),
        ("fail", "not today"),
    ] {
        let env = rogue(how);
        let ended = env.run();
        ended.says("rogue").says(says);
        assert_ne!(ended.code, Some(0), "{how}");
        assert_eq!((env.agent.calls(), env.read("items").as_str()), (0, ITEMS), "{how}");
        nothing_is_left(&env);
    }
}

#[test]
fn a_plugin_that_hangs_is_given_up() {
    let env = rogue("hang");
    env.ralph(&["next"]).says("no reply within 10 s");
    nothing_is_left(&env);
}

/// It fails while the agent works: the item stays, and the next run goes on.
#[test]
fn what_the_agent_breaks_the_plugin_with_is_restored() {
    let env = rogue("fragile");
    env.agent.call(1).script("echo 'pending c boom' >> items\n");
    env.agent.call(1).out("not yet\n");
    let ended = env.run().expect(0);
    ended.says("the backlog could not be read and was restored");
    assert_eq!(env.read("items"), ITEMS.replace("pending", "completed"));
    nothing_is_left(&env);
}

#[test]
fn a_plugin_that_was_changed_while_it_is_in_use_reads_nothing_more() {
    let env = rogue("restart");
    let plugin = env.root().join("plugin.py");
    env.agent.call(1).script(&format!("echo '# changed' >> '{}'\n", plugin.display()));
    let ended = env.run();
    ended.says("its files changed since it was loaded");
    assert_ne!(ended.code, Some(0));
    assert!(!env.read("items").contains("completed"));
}

#[test]
fn a_script_of_a_plugin_that_the_agent_rewrote_is_asked_for() {
    let mut env = example();
    env.unset("RALPH_TRUST");
    env.ralph(&["next"]).expect(0);
    env.write("bot.sh", "cat > /dev/null; sed -i '1i open(\"ran\", \"w\")' ../plugin.py\n");
    env.ralph(&["run", "--max-iterations", "1"]);
    for command in ["next", "agents", "plugin list", "config check", "doctor", "add more", "run"] {
        let words: Vec<&str> = command.split(' ').collect();
        let ended = env.ralph(&words).expect(78);
        ended.says("plugin.py was changed after an agent could write it");
        assert!(!env.path("ran").exists() && !env.path("work/ran").exists(), "{command}");
    }
    env.ralph(&["trust"]).expect(0).says("plugin.py");
    env.ralph(&["plugin", "list"]).expect(0);
    assert!(env.path("ran").exists());
}
