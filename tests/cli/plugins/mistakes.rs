//! What `plugin test` reports of every mistake that an author made when trying it out, and its exit status.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::built;
use crate::environment::TestEnvironment;

const PROGRAM: &str = include_str!("mistakes.py");
const KIT: &str = "[config]\nsays = \"{says}\"\n";

/// A workspace with the plugin `mine`, which makes this mistake.
fn program(how: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.write("mistakes.py", PROGRAM);
    env.write("conformance.toml", KIT);
    env.raw_config(&format!(
        "[plugins.mine]\ncommand = [\"python3\", \"mistakes.py\", \"{how}\"]\n[agent]\nadapter = \"mine\"\n\
         [completion]\ntrust_agent = true\n"
    ));
    env
}

/// The test of one scenario has this exit status, and says this.
#[track_caller]
fn tested(how: &str, scenario: &str, code: i32, parts: &[&str]) {
    let env = program(how);
    // What has to pass may take its time on a busy machine; what hangs takes all of it.
    let timeout = match (how, code) {
        (_, 0) => "3m",
        ("hangs", _) => "5s",
        _ => "20s",
    };
    let ended = env.ralph(&["plugin", "test", "mine", "--only", scenario, "--timeout", timeout]);
    let text = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, Some(code), "{how}: {text}");
    for part in parts {
        assert!(text.contains(part), "{how}: no `{part}` in: {text}");
    }
    assert_eq!(code == 0, !text.contains("FAILED") && text.contains("all checks passed"), "{text}");
}

#[test]
fn mistakes_in_the_handshake() {
    let flush = "it has printed no line: does it end each one, and flush its standard output then?";
    tested("no flush", "start", 69, &["no reply to `hello` within 10 s", flush]);
    tested("other version", "start", 69, &["uses version 2 of the protocol, this host uses 1"]);
    let helo = "within 10 s; it sent the unknown frame `helo`; did you mean `hello`?";
    tested("helo", "start", 69, &["no reply to `hello`", helo]);
    let names = "a name has 1 to 64 letters, digits, `-` and `_`";
    tested("item name", "start", 69, &["names the agent `my bot\\u{1b}[31m` in `hello`", names]);
    tested("own name", "start", 69, &["calls itself `mis\\u{1b}[31mtakes`", "control characters"]);
    tested("twice", "start", 69, &["provides the agent `bot` twice in `hello`"]);
    tested("no items", "start", 69, &["the plugin provides nothing"]);
    let env = program("no items");
    env.write("conformance.toml", "[items.bot.config]\nsays = \"{says}\"\n");
    env.ralph(&["plugin", "test", "mine"]).expect(69).says("the plugin provides nothing");
    tested("wrong kind", "start", 1, &["expected agent, detector, validator or backlog"]);
}

#[test]
fn mistakes_in_building_are_reported_once() {
    for (how, parts) in [
        ("refuses", &["conformance.toml:2:1: `says`: expected a number"][..]),
        ("dies in open", &["its process ended with signal 6 (SIGABRT)"]),
        ("wrong item", &["opened the instance 1 as a validator instead of an agent"]),
        ("no item", &["it has none of the keys `agent`, `detector`"]),
    ] {
        tested(how, "start", 1, parts);
        let ended = program(how).ralph(&["plugin", "test", "mine"]).expect(1);
        assert_eq!(ended.stdout.matches("FAILED").count(), 1, "{how}: {}", ended.stdout);
    }
}

#[test]
fn a_frame_that_a_run_ignores_is_named_once() {
    let env = program("other frame");
    env.write("ralph.toml", env.read("ralph.toml") + "[limits]\nmax_iterations = 1\n");
    let ended = env.run().expect(1);
    ended.says("the plugin sent the unknown frame `result`, which is ignored");
    assert_eq!(ended.stderr.matches("unknown frame").count(), 1, "{}", ended.stderr);
}

#[test]
fn mistakes_in_a_run() {
    for (how, parts) in [
        ("stdout", &["`Loading weights` is not a frame", "is for frames only"][..]),
        ("bad frame", &["the event `text` lacks `text`: {\"frame\": \"event\""]),
        ("no result", &["it answered call 1 of `run` without `report`"]),
        ("uncaught", &["exit 1", "Traceback: KeyError: 'prompt'"]),
        ("exit 0", &["its process ended with exit 0 before it answered call 1 of `run`"]),
        ("line break", &["the frame contains a line break: write each on one line"]),
        ("usage falls", &["its `usage` fell", "$0.50, then $0.25"]),
        ("cost as text", &["`usage.cost` is the text \"0.1\", expected a number"]),
        ("abort", &["signal 6 (SIGABRT)"]),
        ("segv", &["signal 11 (SIGSEGV) (a stack overflow looks the same)"]),
        ("large event", &["bytes or more; at most 16777216 are allowed"]),
        ("wrong class", &["it failed: the plugin `mine`: it did not work"]),
        ("wrong final text", &["expected the final text", "got \"something else\""]),
    ] {
        tested(how, "start", 1, parts);
    }
    let unanswered = "call 1 of `run` was never answered by `done`, `failed` or `panicked`";
    let ignored = "ignored: the unknown frame `result`";
    let others = "`start` came to no end";
    let parts = ["not within 5 s; it sent no event", ignored, unanswered, others];
    tested("hangs", "start,order", 1, &parts);
    let parts = ["2 times: the unknown event type `txt`; did you mean `text`?", "`tool_calls`?"];
    tested("typos", "start", 0, &parts);
    let model = "its configuration has no {model_url}: it asks no model";
    tested("none", "usage,provider-fails", 0, &["skipped", model]);
    // More events than fit into any queue are no mistake.
    tested("many events", "start", 0, &[]);
    tested("none", "start", 0, &["passed"]);
}

#[test]
fn mistakes_at_the_end_of_a_run() {
    let ignored = "it did not end within 5 s of being cancelled and was killed";
    tested("ignores cancel", "cancel-at-first-event", 1, &[ignored]);
    let session = "the report of a `cancelled` run lacks `session`: it announced `s-1`";
    tested("no session", "cancel-at-first-event", 1, &[session]);
    tested("late emit", "start", 1, &["sent `event` for the call 1, which had already ended"]);
}

#[test]
fn a_validator_that_only_fails_and_an_open_without_an_answer() {
    let error = "it neither accepts nor rejects: no database";
    tested("validator", "same-twice,odd-claims", 1, &["2 checks failed", error]);
    let env = program("mute in open");
    let ended = env.ralph(&["plugin", "test", "mine", "--timeout", "2s"]).expect(1);
    ended.says("not within 2 s: `open` is not answered");
}

#[test]
fn a_program_is_checked_by_its_name() {
    let env = program("none");
    // A folder of the plugin's name is not the plugin.
    std::fs::create_dir(env.path("mine")).unwrap();
    env.ralph(&["plugin", "check", "mine"]).expect(0).says("mine: ok").says("agent       bot");
    let ended = env.ralph(&["plugin", "check", "mine", "--json"]).expect(0);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&value["ok"], &value["hello"]["provides"][0]["name"]),
        (&true.into(), &"bot".into())
    );
    env.ralph(&["plugin", "check", "yours"]).expect(64).says("has no [plugins.yours]");
    let ended = env.ralph(&["plugin", "check", "mistakes.py"]).expect(69);
    ended.says("none of its code has run; a program is checked by the name");
    let env = program("other version");
    let broken = env.ralph(&["plugin", "check", "mine"]).expect(69);
    broken.says("the plugin `mine`: ").says("uses version 2 of the protocol");
    env.ralph(&["plugin", "check", "mine", "--json"]).expect(69).says("\"ok\":false");
}

/// Compiles C into a library.
fn compiled(env: &TestEnvironment, name: &str, source: &Path, options: &[&str]) -> PathBuf {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("orchestrator/plugin/abi/include");
    let library = env.path(&format!("lib{name}.so"));
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-I"]).arg(include).args(options);
    let output = command.arg("-o").arg(&library).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

#[test]
fn mistakes_in_a_library() {
    let env = TestEnvironment::new();
    env.write("empty.c", "int x;\n");
    let empty = compiled(&env, "empty", &env.path("empty.c"), &[]).display().to_string();
    let ended = env.ralph(&["plugin", "test", &empty]).expect(69);
    ended.says("does not export `ralph_plugin_decl`").says("`cc -fPIC -shared`");
    env.write("named.c", "const char ralph_plugin_decl_[56] = {0};\n");
    let named = compiled(&env, "named", &env.path("named.c"), &[]).display().to_string();
    env.ralph(&["plugin", "test", &named]).expect(69).says("does not export `ralph_plugin_decl`");
    env.ralph(&["plugin", "test", "./missing.so"]).expect(69).says("there is no such file");

    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("orchestrator/plugin/host/tests/library/plugin.c");
    let other = ["-pthread", "-DHELLO_NAME=\"other\""];
    let other = compiled(&env, "other", &source.with_file_name("../plugin/hostile.c"), &other);
    let ended =
        env.ralph(&["plugin", "test", other.to_str().unwrap(), "--only", "check"]).expect(1);
    ended.says("its `hello` says the name `other`, its manifest `hostile`");

    let asan = compiled(&env, "asan", &source, &["-fsanitize=address"]).display().to_string();
    let ended = env.ralph(&["plugin", "test", &asan]).expect(69);
    ended.says("ASan runtime does not come first").says("-print-file-name=libasan.so");
}

#[test]
fn panics_blocks_and_deaths_of_a_library() {
    let library = built("orchestrator/plugin/host/tests/plugins/misbehaving", "libmisbehaving.so");
    let library = library.to_str().unwrap();
    let tested = |create: &str, part: &str| {
        let env = TestEnvironment::new();
        env.write("conformance.toml", format!("[items.bad.config]\ncreate = \"{create}\"\n"));
        let kit = ["--conformance", "conformance.toml", "--only", "start", "--timeout", "20s"];
        let ended = env.ralph(&[&["plugin", "test", library][..], &kit].concat()).expect(1);
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(text.contains("FAILED") && text.contains(part), "{create}: no `{part}` in {text}");
    };
    tested("panic", "the plugin panicked: deliberate panic in create");
    tested("panic-in-describe", "deliberate panic in describe");
    tested("refuse", "conformance.toml:2:1: `create`: refused on purpose");
}

#[test]
fn results_for_machines_and_the_transcript_of_a_failure() {
    let env = program("wrong final text");
    let arguments =
        ["plugin", "test", "mine", "--only", "start,check", "--json", "--junit", "r.xml"];
    let ended = env.ralph(&arguments).expect(1);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["passed"], false);
    let checks = value["items"][0]["checks"].as_array().unwrap();
    let outcomes: Vec<_> = checks.iter().map(|row| (&row["check"], &row["outcome"])).collect();
    assert_eq!(format!("{outcomes:?}").matches("String(\"passed\")").count(), 1, "{outcomes:?}");
    let transcript = checks.iter().find_map(|row| row["transcript"].as_str()).unwrap();
    assert!(std::fs::read_to_string(transcript).unwrap().contains("something else"));
    std::fs::remove_dir_all(Path::new(transcript).parent().unwrap()).unwrap();
    assert!(env.read("r.xml").contains("tests=\"2\" failures=\"1\""), "{}", env.read("r.xml"));
    let ended = env.ralph(&["plugin", "test", "mine", "--only", "strat"]).expect(64);
    ended.says("no such check").says("did you mean `start`?").says("provider-fails");
    assert_eq!(ended.stdout, "", "nothing was run");
    env.ralph(&["plugin", "test", "mine", "--timeout", "0s"]).expect(64).says("--timeout");
}

#[test]
fn a_configuration_is_found_and_one_without_placeholders_is_reported() {
    let env = program("none");
    env.ralph(&["plugin", "test", "mine", "--only", "check"]).expect(0).says("configured by");
    std::fs::remove_file(env.path("conformance.toml")).unwrap();
    let config = env.read("ralph.toml");
    env.write(
        "ralph.toml",
        config.replace("[completion]", "[agent.config]\nsays = \"no\"\n[completion]"),
    );
    let ended = env.ralph(&["plugin", "test", "mine", "--only", "start"]).expect(1);
    ended.says("uses none of {says}, {runs}, {claims}, {notes} and {model_url}");
    ended.says("expected the final text").says("got \"no\"");
}

#[test]
fn a_skip_of_the_whole_file_holds_for_each_item() {
    let env = program("wrong final text");
    let skip = "[[skip]]\nscenarios = [\"start\"]\nwhy = \"it says what it wants\"\n";
    env.write("conformance.toml", format!("{skip}[items.bot.config]\nsays = \"{{says}}\"\n"));
    let ended = env.ralph(&["plugin", "test", "mine", "--only", "start"]).expect(0);
    ended.says("skipped").says("it says what it wants");
}
