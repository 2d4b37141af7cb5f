//! `plugin doc`.

use super::{built, environment};
use crate::environment::TestEnvironment;

/// A program that announces a schema and answers nothing else.
const PROGRAM: &str = r##"import json, sys
if sys.argv[1] == "silent":
    sys.exit(3)
sys.stdin.readline()
schema = {"type": "object", "required": ["says"], "properties": {
    "says": {"type": "string", "description": "What it says,\n<b>a|b</b>."},
    "mode": {"enum": ["loud", "low"], "default": "low"},
    "steps": {"type": "array", "items": {"$ref": "#/definitions/step"}}},
    "definitions": {"step": {"type": "object", "properties": {"wait": {"type": ["integer", "null"]}}}}}
items = [{"kind": "agent", "name": "echo", "summary": "says it again", "schema": schema},
         {"kind": "agent", "name": "other"}]
hello = {"frame": "hello", "protocol": 1, "name": "mine", "version": "1.2", "features": ["credit"], "provides": items}
print(json.dumps(hello), flush=True)
sys.stdin.read()
"##;

#[test]
fn a_program_s_reference_has_its_keys_features_and_version() {
    let env = environment(PROGRAM, "well", "");
    let printed = env.ralph(&["plugin", "doc", "rogue"]).expect(0).stdout;
    for line in [
        "# rogue",
        "| version | 1.2 |",
        "| features | `credit` |",
        "## Agent `echo`",
        "says it again",
        "adapter = \"rogue/echo\"",
        "| `says` | string | required | What it says, \\<b>a\\|b\\</b>. |",
        "| `mode` | `\"loud\"`, `\"low\"` | `\"low\"` |  |",
        "| `steps` | array of table |  |  |",
        "| `steps[].wait` | integer |  |  |",
        "The plugin says nothing of the keys of `[agent.config]`: it announces no `schema`.",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}\n{printed}");
    }
    let env = environment(PROGRAM, "silent", "");
    env.ralph(&["plugin", "doc", "rogue"]).expect(69).says("exit 3");
    env.ralph(&["plugin", "doc", "none"]).expect(64).says("no [plugins.none]");
}

#[test]
fn a_library_s_reference_is_read_from_its_manifest() {
    let library = built("examples/custom-detector", "libplan_detector.so");
    let env = TestEnvironment::new();
    let printed = env.ralph(&["plugin", "doc", &library.display().to_string()]).expect(0).stdout;
    for part in ["## Detector `plan`", "| what it is | a library |", "announces no `schema`"] {
        assert!(printed.contains(part), "{part}\n{printed}");
    }
    env.ralph(&["plugin", "doc", "missing.so"]).expect(69).says("there is no such file");
}

#[test]
fn what_is_built_in_needs_no_configuration() {
    let env = TestEnvironment::new();
    env.raw_config("[agent\n");
    let printed = env.ralph(&["plugin", "doc", "command"]).expect(0).stdout;
    for part in [
        "| what it is | built in |",
        "## Agent `command`",
        "## Validator `command`",
        "| `program` | array of string | required |",
        "| `stream.rule[].each` | string |",
        "It also has the keys that every validator has.",
    ] {
        assert!(printed.contains(part), "{part}\n{printed}");
    }
    env.ralph(&["plugin", "doc", "codex"]).expect(0).says("It can: ");
    env.ralph(&["plugin", "doc", "plan-md"]).expect(0).says("kind = \"plan-md\"");
}
