//! Wrong configurations, each with all that is said about it.

use ralph_orchestrator_config::{Sources, load};

use crate::Project;

fn check(cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(Project::trusting(text).errors(), *expected, "{text}");
    }
}

#[test]
fn unknown_keys() {
    check(&[
        ("lmits = 1", &["ralph.toml:1:1: lmits: unknown key; did you mean `limits`?"]),
        ("[gadgets]\npaths = []", &["ralph.toml:1:2: gadgets: unknown key"]),
        ("[[validators]]", &["ralph.toml:1:3: validators: unknown key; did you mean `validator`?"]),
        (
            "[limits]\nmax_cost = 1\n  max_iteration = 2",
            &[
                "ralph.toml:2:1: limits.max_cost: unknown key; did you mean `max_cost_usd`?",
                "ralph.toml:3:3: limits.max_iteration: unknown key; did you mean `max_iterations`?",
            ],
        ),
        (
            "[run]\nPROMPT = 'x'",
            &["ralph.toml:2:1: run.PROMPT: unknown key; did you mean `prompt`?"],
        ),
        ("[run]\nmax_tokens = 1", &["ralph.toml:2:1: run.max_tokens: unknown key"]),
        (
            "[agents.judge]\nadaptor = 'x'",
            &["ralph.toml:2:1: agents.judge.adaptor: unknown key; did you mean `adapter`?"],
        ),
        (
            "[agents.\"my judge\"]\nmodel = 'x'",
            &["ralph.toml:2:1: agents.\"my judge\".model: unknown key"],
        ),
        (
            "[agent.prices]\ninput=1\noutput=1\ncache_read=1\ncache_write=1\ncache-reads=1",
            &["ralph.toml:6:1: agent.prices.cache-reads: unknown key; did you mean `cache_read`?"],
        ),
        (
            "[completion]\ntrust = true",
            &["ralph.toml:2:1: completion.trust: unknown key; did you mean `trust_agent`?"],
        ),
        ("env.modes = 1", &["ralph.toml:1:5: env.modes: unknown key; did you mean `mode`?"]),
        (
            "state = { dirs = '' }",
            &["ralph.toml:1:11: state.dirs: unknown key; did you mean `dir`?"],
        ),
        ("[run.sub.sub]", &["ralph.toml:1:6: run.sub: unknown key"]),
    ]);
}

#[test]
fn wrong_types() {
    check(&[
        (
            "[limits]\n\nmax_cost_usd =   \"five\"",
            &["ralph.toml:3:18: limits.max_cost_usd: expected a number of dollars, found \"five\""],
        ),
        (
            "limits.max_iterations = 1.5",
            &[
                "ralph.toml:1:25: limits.max_iterations: expected a whole number, 1 or more, found 1.5",
            ],
        ),
        (
            "limits.max_tokens = 'all'",
            &[
                "ralph.toml:1:21: limits.max_tokens: expected a whole number, 1 or more, found \"all\"",
            ],
        ),
        ("run.prompt = 5", &["ralph.toml:1:14: run.prompt: expected a path, found 5"]),
        (
            "run.prompt_text = []",
            &["ralph.toml:1:19: run.prompt_text: expected a string, found an array"],
        ),
        (
            "run.prompt_editable = 'yes'",
            &["ralph.toml:1:23: run.prompt_editable: expected true or false, found \"yes\""],
        ),
        ("agent = 'claude'", &["ralph.toml:1:9: agent: expected a table, found \"claude\""]),
        ("agent.config = 'x'", &["ralph.toml:1:16: agent.config: expected a table, found \"x\""]),
        ("agent.prices = 3", &["ralph.toml:1:16: agent.prices: expected a table, found 3"]),
        ("agents = []", &["ralph.toml:1:10: agents: expected a table of tables, found an array"]),
        ("agents.judge = 1", &["ralph.toml:1:16: agents.judge: expected a table, found 1"]),
        ("completion = true", &["ralph.toml:1:14: completion: expected a table, found true"]),
        ("env.pass = 'A'", &["ralph.toml:1:12: env.pass: expected an array, found \"A\""]),
        ("env.pass = ['A', 1]", &["ralph.toml:1:18: env.pass.1: expected a string, found 1"]),
        ("env.set = { A = 1 }", &["ralph.toml:1:17: env.set.A: expected a string, found 1"]),
        ("validator = {}", &["ralph.toml:1:13: validator: expected an array, found a table"]),
        ("[validator]", &["ralph.toml:1:1: validator: expected an array, found a table"]),
        ("validator = [1]", &["ralph.toml:1:14: validator.0: expected a table, found 1"]),
        (
            "run.prompt = 1979-05-27",
            &["ralph.toml:1:14: run.prompt: no key takes a date or a time; text goes in quotes"],
        ),
        (
            "[[validator]]\nkind = 'command'\npasses_required = 99999999999999999999",
            &[
                "ralph.toml:3:19: validator.0.passes_required: the number 99999999999999999999 is too large",
            ],
        ),
    ]);
}

#[test]
fn plugins_that_cannot_be() {
    check(&[
        (
            "plugins.x = {}",
            &[
                "ralph.toml:1:13: plugins.x: expected `library`, a file, or `command`, a program and its arguments",
            ],
        ),
        (
            "plugins.'a/b' = { command = ['x'] }",
            &["ralph.toml:1:17: plugins.\"a/b\": a plugin needs a name of one line, without `/`"],
        ),
        (
            "[plugins.x]\ncommand = ['x']\nlibrary = 'x.so'",
            &[
                "ralph.toml:2:11: plugins.x.command: there is a `library` already; only one of the two can be given",
            ],
        ),
        (
            "[plugins.x]\ncommand = ['x']\ndigest = 'ab'",
            &[
                "ralph.toml:3:10: plugins.x.digest: expected a BLAKE3 digest of 64 hexadecimal digits",
            ],
        ),
    ]);
}

/// Types that derive `Deserialize` take arrays as their fields in order, and enums take numbers.
#[test]
fn arrays_are_no_tables_and_numbers_no_words() {
    check(&[
        ("run = ['PROMPT.md']", &["ralph.toml:1:7: run: expected a table, found an array"]),
        ("[[limits]]\na = 1", &["ralph.toml:1:1: limits: expected a table, found an array"]),
        (
            "agent.prices = [1, 2, 3, 4]",
            &["ralph.toml:1:16: agent.prices: expected a table, found an array"],
        ),
        ("[[agents.a]]", &["ralph.toml:1:1: agents.a: expected a table, found an array"]),
        (
            "env.mode = 0",
            &["ralph.toml:1:12: env.mode: expected \"clean\" or \"inherit\", found 0"],
        ),
        (
            "sandbox.mode = 'landlok'",
            &[
                "ralph.toml:1:16: sandbox.mode: expected \"off\" or \"landlock\", found \"landlok\"; did you mean `landlock`?",
            ],
        ),
        (
            "env.mode = 'cleen'",
            &[
                "ralph.toml:1:12: env.mode: expected \"clean\" or \"inherit\", found \"cleen\"; did you mean `clean`?",
            ],
        ),
        (
            "completion.after_rejection = 'drop'",
            &[
                "ralph.toml:1:30: completion.after_rejection: expected \"keep\" or \"require_new_claim\", found \"drop\"",
            ],
        ),
    ]);
}

#[test]
fn durations_out_of_range() {
    let duration = |other: &str, text: &str| {
        format!("expected a duration such as \"90s\" or \"2h 30m\"{other}, found {text}")
    };
    for (key, other) in [
        ("max_runtime", ""),
        ("iteration_timeout", ""),
        ("idle_timeout", ""),
        ("max_wait", ", or \"until reset\""),
    ] {
        for value in ["\"soon\"", "\"-5s\"", "\"5\"", "5", "\"\"", "\"87601h\""] {
            let errors = Project::trusting(format!("limits.{key} = {value}")).errors();
            let column = format!("limits.{key} = ").len() + 1;
            let expected =
                format!("ralph.toml:1:{column}: limits.{key}: {}", duration(other, value));
            assert_eq!(errors, [expected]);
        }
    }
}

#[test]
fn percentages_of_rate_windows() {
    check(&[(
        "[limits]\nmax_window = { weekly = 0, five_hour = 101, \"5h limit\" = 5 }",
        &[
            "ralph.toml:2:25: limits.max_window.weekly: expected a percentage from 1 to 100, found 0",
            "ralph.toml:2:40: limits.max_window.five_hour: expected a percentage from 1 to 100, found 101",
            "ralph.toml:2:58: limits.max_window.\"5h limit\": a rate window's name has lower case letters, digits and `_`, such as `five_hour` or `weekly`",
        ],
    )]);
}

#[test]
fn numbers_out_of_range() {
    check(&[
        (
            "limits.max_cost_usd = -5",
            &[
                "ralph.toml:1:23: limits.max_cost_usd: expected a number of dollars above 0, at most 1000000, found -5",
            ],
        ),
        (
            "limits.max_cost_usd = -0.01",
            &[
                "ralph.toml:1:23: limits.max_cost_usd: expected a number of dollars above 0, at most 1000000, found -0.01",
            ],
        ),
        (
            "limits.max_cost_usd = 1e7",
            &[
                "ralph.toml:1:23: limits.max_cost_usd: expected a number of dollars above 0, at most 1000000, found 10000000.0",
            ],
        ),
        (
            "limits.max_cost_usd = inf",
            &["ralph.toml:1:23: limits.max_cost_usd: expected a finite number, found inf"],
        ),
        (
            "limits.max_cost_usd = nan",
            &["ralph.toml:1:23: limits.max_cost_usd: expected a finite number, found nan"],
        ),
        (
            "limits.max_iterations = -1",
            &[
                "ralph.toml:1:25: limits.max_iterations: expected a whole number, 1 or more, found -1",
            ],
        ),
        (
            "limits.max_tokens = -1",
            &["ralph.toml:1:21: limits.max_tokens: expected a whole number, 1 or more, found -1"],
        ),
        (
            "limits.max_tokens = 0",
            &["ralph.toml:1:21: limits.max_tokens: expected 1 or more, found 0"],
        ),
        (
            "limits.max_failures = 0",
            &["ralph.toml:1:23: limits.max_failures: expected 1 or more, found 0"],
        ),
        (
            "limits.max_stagnant = 4294967296",
            &[
                "ralph.toml:1:23: limits.max_stagnant: expected a whole number from 1 to 4294967295, found 4294967296",
            ],
        ),
        (
            "limits.max_rejections = 0",
            &["ralph.toml:1:25: limits.max_rejections: expected 1 or more, found 0"],
        ),
    ]);
}

#[test]
fn no_time_and_odd_prices() {
    check(&[
        (
            "limits.max_runtime = '0s'",
            &["ralph.toml:1:22: limits.max_runtime: must be greater than 0s"],
        ),
        (
            "limits.idle_timeout = '0s'",
            &["ralph.toml:1:23: limits.idle_timeout: must be greater than 0s"],
        ),
        (
            "limits.iteration_timeout = 'never'",
            &[
                "ralph.toml:1:28: limits.iteration_timeout: expected a duration such as \"90s\" or \"2h 30m\", found \"never\"",
            ],
        ),
        (
            "run.delay = '1 month'",
            &[
                "ralph.toml:1:13: run.delay: expected a duration such as \"90s\" or \"2h 30m\", found \"1 month\"",
            ],
        ),
        (
            "[agent.prices]\ninput = -1\noutput = 0\ncache_read = 'x'\ncache_write = 0",
            &["ralph.toml:4:14: agent.prices.cache_read: expected a number, found \"x\""],
        ),
        (
            "[agent.prices]\ninput = -1\noutput = 0\ncache_read = 0\ncache_write = 0",
            &[
                "ralph.toml:2:9: agent.prices.input: expected dollars per million tokens, 0 or more, found -1",
            ],
        ),
        ("[agent.prices]\ninput = 1", &["ralph.toml:1:1: agent.prices: `output` is missing"]),
    ]);
}

#[test]
fn limits_that_are_all_off() {
    let off = "[limits]\nmax_runtime = 'none'\nmax_cost_usd = 'none'\nmax_iterations = 'none'";
    check(&[(
        off,
        &[
            "ralph.toml:4:18: limits.max_iterations: \"none\" needs `max_runtime` or `max_cost_usd` as a limit",
        ],
    )]);
    assert_eq!(
        Project::trusting(off.replace("iterations = 'none'", "iterations = 1"))
            .config()
            .limits
            .max_runtime,
        None
    );
    assert_eq!(
        Project::trusting(off.replacen("'none'", "'1h'", 1)).config().limits.max_iterations,
        None
    );
    let none = Project::trusting("limits.max_iterations = 'none'").config();
    assert_eq!(none.limits.max_iterations, None);
}

#[test]
fn prompts_and_paths() {
    check(&[
        (
            "[run]\nprompt = 'a.md'\nprompt_text = 'b'",
            &[
                "ralph.toml:3:15: run.prompt_text: there is a `prompt` already; only one of the two can be given",
            ],
        ),
        ("run.prompt_text = \" \\n\"", &["ralph.toml:1:19: run.prompt_text: the prompt is empty"]),
        ("run.prompt = ''", &["ralph.toml:1:14: run.prompt: expected a path, found \"\""]),
        (
            "run.workspace = \"a\\u0000\"",
            &["ralph.toml:1:17: run.workspace: a path cannot have a NUL character"],
        ),
        ("run.template = '~/x'", &["ralph.toml:1:16: run.template: `~` is not expanded"]),
        ("sandbox.write = ['~/x']", &["ralph.toml:1:18: sandbox.write.0: `~` is not expanded"]),
        ("sandbox.read = ['']", &["ralph.toml:1:17: sandbox.read.0: expected a path, found \"\""]),
        ("state.dir = '~'", &["ralph.toml:1:13: state.dir: `~` is not expanded"]),
    ]);
}

#[test]
fn names() {
    check(&[
        (
            "agent.adapter = ' '",
            &["ralph.toml:1:17: agent.adapter: expected the name of an adapter, found \" \""],
        ),
        (
            "agents.\"\".adapter = 'x'",
            &["ralph.toml:1:8: agents.\"\": an agent needs a name of one line"],
        ),
        (
            "env.pass = ['A', 'B=C', '', 'D E']",
            &[
                "ralph.toml:1:18: env.pass.1: expected the name of a variable, found \"B=C\"",
                "ralph.toml:1:25: env.pass.2: expected the name of a variable, found \"\"",
                "ralph.toml:1:29: env.pass.3: expected the name of a variable, found \"D E\"",
            ],
        ),
        (
            "env.set.\"A=\" = ''",
            &["ralph.toml:1:16: env.set.\"A=\": \"A=\" is not the name of a variable"],
        ),
        (
            "env.set.A = \"\\u0000\"",
            &["ralph.toml:1:13: env.set.A: the value of a variable cannot have a NUL character"],
        ),
    ]);
}

#[test]
fn detectors() {
    check(&[
        (
            "completion.detectors = []",
            &[
                "ralph.toml:1:24: completion.detectors: without a detector nothing could ever claim that the task is complete",
            ],
        ),
        (
            "completion.detectors = ['a', 'a']",
            &["ralph.toml:1:30: completion.detectors.1: the detector \"a\" is named twice"],
        ),
        (
            "completion.detectors = ['']",
            &[
                "ralph.toml:1:25: completion.detectors.0: expected the name of a detector, found \"\"",
            ],
        ),
        (
            "[[completion.detector]]\nword = 'X'",
            &["ralph.toml:1:1: completion.detector.0: `name` is missing"],
        ),
        (
            "[[completion.detector]]\nname = 5",
            &["ralph.toml:2:8: completion.detector.0.name: expected a string, found 5"],
        ),
        (
            "[[completion.detector]]\nname = 'a'\n[[completion.detector]]\nname = 'a'",
            &["ralph.toml:4:8: completion.detector.1.name: the detector \"a\" has options twice"],
        ),
    ]);
}

#[test]
fn validators() {
    check(&[
        (
            "[[validator]]\ntimeout = 5\nname = ''",
            &[
                "ralph.toml:1:1: validator.0: `kind` is missing",
                "ralph.toml:2:11: validator.0.timeout: expected a duration such as \"90s\" or \"2h 30m\", found 5",
                "ralph.toml:3:8: validator.0.name: expected a name of one line, found \"\"",
            ],
        ),
        (
            "[[validator]]\nkind = ''",
            &["ralph.toml:2:8: validator.0.kind: expected a kind of validator, found \"\""],
        ),
        (
            "[[validator]]\nkind = 7",
            &["ralph.toml:2:8: validator.0.kind: expected a string, found 7"],
        ),
        (
            "[[validator]]\nkind = 'a'\ntimeout = '0s'",
            &["ralph.toml:3:11: validator.0.timeout: must be greater than 0s"],
        ),
        (
            "[[validator]]\nkind = 'a'\nname = 'x'\n\n[[validator]]\nkind = 'b'\nname = 'x'",
            &["ralph.toml:7:8: validator.1.name: another validator is called \"x\""],
        ),
    ]);
}

#[test]
fn without_a_required_validator() {
    let without = Project::new("");
    assert_eq!(
        without.errors(),
        [
            "ralph.toml: validator: there is no validator, so nothing would prove that the work is done"
        ]
    );
    let help = without.load().unwrap_err().errors()[0].help.clone().unwrap();
    for part in ["[[validator]]", "program = [\"cargo\", \"test\"]", "trust_agent = true"] {
        assert!(help.contains(part), "{help}");
    }
    assert_eq!(
        Project::new("[[validator]]\nkind = 'a'\nrequired = false").errors(),
        [
            "ralph.toml:3:12: validator.0.required: no validator is required, so nothing would prove that the work is done"
        ]
    );
    assert_eq!(
        Project::new("validator = []").errors(),
        [
            "ralph.toml:1:13: validator: there is no validator, so nothing would prove that the work is done"
        ]
    );
    // Nobody knows what the validator was to be, so nothing is said about there being none.
    assert_eq!(
        Project::new("validator = ['tests']").errors(),
        ["ralph.toml:1:14: validator.0: expected a table, found \"tests\""]
    );
}

#[test]
fn a_kind_that_is_optional_by_default_proves_nothing_unless_it_is_required() {
    let errors = Project::new("[[validator]]\nkind = 'review'").errors();
    assert!(errors.len() == 1 && errors[0].contains("no validator is required"), "{errors:?}");
    let loaded = Project::new("[[validator]]\nkind = 'review'\nrequired = true").loaded();
    assert!(loaded.config.validators[0].required);
    let both = "[[validator]]\nkind = 'review'\n[[validator]]\nkind = 'command'";
    let required = Project::new(both).loaded().config.validators;
    assert_eq!(required.iter().map(|one| one.required).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_mistake_is_one_even_if_a_later_layer_hides_it() {
    let project = Project::trusting("[limits]\nmax_cost_usd = 'five'\nmax_failures = 5")
        .set("limits.max_cost_usd", "5")
        .user("limits = 7\n[agent.prices]\ninput = 1")
        .var("RALPH_LIMITS__MAX_FAILURES", "x")
        .set("limits.max_failures", "3");
    assert_eq!(
        project.errors(),
        [
            "ralph.toml:2:16: limits.max_cost_usd: expected a number of dollars, found \"five\"",
            "user.toml:1:10: limits: expected a table, found 7",
            "user.toml:2:1: agent.prices: `output` is missing",
            "RALPH_LIMITS__MAX_FAILURES: limits.max_failures: expected a whole number, 1 or more, found \"x\"",
        ]
    );
}

#[test]
fn a_wrong_file_with_many_mistakes_comes_to_an_end() {
    let text = (0..10_000).map(|n| format!("k{n} = {n}\n")).collect::<String>();
    assert_eq!(Project::trusting(text).errors().len(), 50);
}

#[test]
fn a_file_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let errors = load(&Sources { file: dir.path().join("ralph.toml"), ..Sources::default() });
    let errors = errors.unwrap_err();
    assert!(errors.to_string().ends_with("ralph.toml: there is no such file"), "{errors}");
    assert!(errors.errors()[0].help.as_ref().unwrap().contains("ralph-orchestrator -c FILE init"));
}
