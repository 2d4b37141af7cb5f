//! Defaults, layers, and where values come from.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ralph_orchestrator_config::{
    AfterRejection, AgentConfig, Env, EnvMode, EscalateAfter, EscalateStart, Limits, MaxWait,
    Sandbox, SandboxMode, SandboxWorkspace, SourceLocation, Sources, load,
};
use ralph_orchestrator_contract::Usd;
use serde_json::json;

use crate::{Project, table};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn every_default() {
    let project = Project::new("[[validator]]\nkind = 'command'");
    let config = project.config();
    let dir = project.dir.path();
    assert_eq!(config.run.prompt.as_deref(), Some(dir.join("PROMPT.md").as_path()));
    assert_eq!(config.run.prompt_text, None);
    assert!(config.run.prompt_editable);
    assert_eq!(config.run.workspace, dir);
    assert_eq!(config.run.template, None);
    assert_eq!(config.run.delay, seconds(2));
    let agent = AgentConfig {
        adapter: "claude-cli".into(),
        config: json!({}),
        fallback: Vec::new(),
        inputs: Vec::new(),
        unmetered: false,
        prices: None,
        escalate: Vec::new(),
        escalate_after: EscalateAfter { rejections: 2, stagnant: 3, failures: 2 },
        start: EscalateStart::Cheapest,
    };
    assert_eq!(config.agent, agent);
    assert!(config.agents.is_empty());
    let detectors = config.completion.detectors.iter().map(|d| (d.name.as_str(), &d.config));
    let none = json!({});
    assert_eq!(detectors.collect::<Vec<_>>(), [("promise", &none), ("marker", &none)]);
    assert!(!config.completion.trust_agent);
    assert_eq!(config.completion.after_rejection, AfterRejection::Keep);
    let validator = &config.validators[0];
    assert_eq!((validator.name.as_str(), validator.required), ("command", true));
    assert_eq!(validator.timeout, seconds(600));
    assert_eq!(
        config.limits,
        Limits {
            max_iterations: Some(100),
            max_runtime: Some(seconds(4 * 3600)),
            max_cost_usd: Usd::from_dollars(50.0),
            max_tokens: None,
            iteration_timeout: seconds(30 * 60),
            idle_timeout: seconds(15 * 60),
            max_failures: Some(5),
            max_stagnant: Some(10),
            max_rejections: Some(3),
            max_wait: MaxWait::AtMost(seconds(6 * 3600)),
            max_window: BTreeMap::new(),
        }
    );
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.env, Env { mode: EnvMode::Clean, pass: vec![], set: table(&[]) });
    let nothing = Sandbox {
        mode: SandboxMode::Off,
        workspace: SandboxWorkspace::Open,
        read: vec![],
        write: vec![],
    };
    assert_eq!(config.sandbox, nothing);
    assert_eq!(config.state.dir, None);
}

#[test]
fn a_complete_file() {
    let config = Project::new(include_str!("complete.toml")).config();
    assert_eq!(config.run.delay, Duration::from_millis(1500));
    assert_eq!(
        config.agent.config,
        json!({"model": "sonnet", "max_turns": 7, "deep": {"list": [1, 2.5, true]}})
    );
    assert_eq!(config.agent.prices.unwrap().cache_write, 3.75);
    assert_eq!(config.agents["judge"].config, json!({"program": ["./judge.sh"]}));
    let plan = &config.plugins["plan"];
    assert!(plan.library.as_ref().unwrap().is_absolute());
    assert_eq!(config.plugins["bot"].command, ["python3", "bot.py"]);
    let detectors = config.completion.detectors.iter().map(|d| (d.name.as_str(), d.config.clone()));
    assert_eq!(
        detectors.collect::<Vec<_>>(),
        [
            ("marker", json!({})),
            ("promise", json!({"word": "FINISHED"})),
            ("other", json!({"x": 1}))
        ]
    );
    assert_eq!(config.completion.after_rejection, AfterRejection::RequireNewClaim);
    let names = config.validators.iter().map(|v| (v.index, v.kind.as_str(), v.name.as_str()));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            (0, "command", "command-2"),
            (1, "command", "command"),
            (2, "command", "command-3"),
            (3, "evidence-files", "evidence-files")
        ]
    );
    assert_eq!(config.validators[1].config, json!({"program": ["true"], "expect_exit": 0}));
    assert!(!config.validators[2].required);
    assert_eq!(config.limits.max_tokens, Some(1_000_000));
    assert_eq!(config.limits.max_cost_usd, None);
    assert_eq!(config.env.set, table(&[("TZ", "UTC")]));
    assert_eq!(config.sandbox.mode, SandboxMode::Landlock);
    assert_eq!(config.sandbox.read, [Path::new("/data")]);
    assert!(config.sandbox.write[0].is_absolute() && config.sandbox.write[0].ends_with("out"));
    assert_eq!(config.state.dir.as_deref(), Some(Path::new("/var/lib/ralph")));
    let bench = &config.bench;
    assert!(bench.tasks[0].is_absolute() && bench.tasks[0].ends_with("tasks"));
    assert_eq!(bench.tasks[1], Path::new("/srv/tasks"));
    assert_eq!(bench.validators_toml(), r#"[{ kind = "command", program = ["make", "test"] }]"#);
    let sets = bench.variant["notes"].sets();
    let sets: Vec<_> = sets.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
    assert_eq!(sets, [("limits.max_iterations", "3"), ("memory.mode", "\"none\"")]);
}

#[test]
fn later_layers_win_key_by_key() {
    let file =
        "[limits]\nmax_failures = 2\nmax_stagnant = 2\nmax_rejections = 2\nmax_iterations = 2";
    let project = Project::trusting(file)
        .user("[limits]\nmax_tokens = 1\nmax_failures = 1\nmax_stagnant = 1\nmax_rejections = 1")
        .var("RALPH_LIMITS__MAX_STAGNANT", "3")
        .var("RALPH_LIMITS__MAX_REJECTIONS", "3")
        .set("limits.max_rejections", "4");
    let loaded = project.loaded();
    let limits = &loaded.config.limits;
    assert_eq!(limits.max_tokens, Some(1));
    assert_eq!(
        (limits.max_iterations, limits.max_failures, limits.max_stagnant, limits.max_rejections),
        (Some(2), Some(2), Some(3), Some(4))
    );
    let origin = |key: &str| loaded.origin(key).map(|text| project.without_folder(&text));
    let expected = [
        ("limits.max_wait", "default"),
        ("limits.max_tokens", "user.toml:2:14"),
        ("limits.max_failures", "ralph.toml:2:16"),
        ("limits.max_stagnant", "RALPH_LIMITS__MAX_STAGNANT"),
        ("limits.max_rejections", "--set"),
        ("completion.trust_agent", "--set"),
        ("state.dir", "default"),
        ("agent.prices.input", "default"),
    ];
    for (key, place) in expected {
        assert_eq!(origin(key).as_deref(), Some(place), "{key}");
        assert_eq!(loaded.set_by_user(key), place != "default", "{key}");
    }
    for unknown in ["limits.max_cost", "nothing", "", "limits..max_cost_usd", "validator.0.kind"] {
        assert_eq!(origin(unknown), None, "{unknown}");
        assert!(!loaded.set_by_user(unknown));
    }
}

#[test]
fn arrays_are_replaced_and_tables_merged() {
    let project = Project::new(
        "[[validator]]\nkind = 'a'\n[[validator]]\nkind = 'b'\n[agent.config]\na = 1\nb = 1",
    )
    .user("[[validator]]\nkind = 'u'\n[agent.config]\nb = 0\nc = 0\n[agents.x]\nadapter = 'y'")
    .set("agent.config.d.e", "[1, {f = 2}]")
    .set("env.pass", "['A', 'B']");
    let config = project.config();
    let kinds = config.validators.iter().map(|v| v.kind.as_str()).collect::<Vec<_>>();
    assert_eq!(kinds, ["a", "b"]);
    assert_eq!(config.agent.config, json!({"a": 1, "b": 1, "c": 0, "d": {"e": [1, {"f": 2}]}}));
    assert_eq!(config.agents["x"].adapter, "y");
    assert_eq!(config.env.pass, ["A", "B"]);
}

#[test]
fn a_missing_user_file_is_none() {
    let mut project = Project::trusting("");
    project.sources.user_file = Some(project.path("nowhere/config.toml"));
    assert!(project.load().is_ok());
}

#[test]
fn variables_and_sets_without_quotes() {
    let config = Project::trusting("")
        .var("RALPH_RUN__PROMPT_TEXT", "2026")
        .var("RALPH_LIMITS__MAX_RUNTIME", "none")
        .var("RALPH_LIMITS__IDLE_TIMEOUT", "2h 30m")
        .var("RALPH_LIMITS__MAX_COST_USD", "5")
        .var("RALPH_ENV__SET__My__Var", "1")
        .var("RALPH_AGENTS__JUDGE__CONFIG__MODEL", "opus")
        .var("RALPH_STATE__DIR", "1979-05-27")
        .set("env.set.DATE", "2026-01-01")
        .set("env.set.QUOTED", "\"true\"")
        .set("env.set.BOOL", "true")
        .set("env.set.FLOAT", "1.50")
        .set("env.set.EMPTY", "")
        .set("env.set.\"a.b\"", "x # y")
        .set("agents.\"My Judge\".adapter", "= [")
        .config();
    assert_eq!(config.run.prompt_text.as_deref(), Some("2026"));
    assert_eq!(config.limits.max_runtime, None);
    assert_eq!(config.limits.idle_timeout, seconds(9000));
    assert_eq!(config.limits.max_cost_usd, Usd::from_dollars(5.0));
    assert_eq!(config.agents["judge"].config, json!({"model": "opus"}));
    assert_eq!(config.agents["My Judge"].adapter, "= [");
    assert!(config.state.dir.unwrap().ends_with("1979-05-27"));
    assert_eq!(
        config.env.set,
        table(&[
            ("My__Var", "1"),
            ("DATE", "2026-01-01"),
            ("QUOTED", "true"),
            ("BOOL", "true"),
            ("FLOAT", "1.50"),
            ("EMPTY", ""),
            ("a.b", "x # y"),
        ])
    );
}

#[test]
fn variables_that_are_no_configuration() {
    let config = Project::trusting("")
        .var("RALPH_RUN_ID", "0198")
        .var("RALPH_ITERATION", "3")
        .var("RALPHX", "1")
        .var("LIMITS__MAX_TOKENS", "1")
        .config();
    assert_eq!(config.limits, Limits::default());

    let others = Project::trusting("")
        .var("RALPH_CONFIG", "x")
        .var("RALPH_STATE_DIR", "/x")
        .var("RALPH_", "1")
        .var("RALPH_QUOTAS__PATHS", "1");
    assert_eq!(others.config().limits, Limits::default());

    let project = Project::trusting("")
        .var("RALPH_LIMITS__MAX_COSTT", "1")
        .var("RALPH_LIMITS_MAX_TOKENS", "1")
        .var("RALPH_LIMITS__", "1")
        .var("RALPH_ORCHESTRATOR_QUOTAS__PATHS", "1");
    assert_eq!(
        project.errors(),
        [
            "RALPH_LIMITS_MAX_TOKENS: not the name of a key; did you mean `RALPH_LIMITS__MAX_TOKENS`?",
            "RALPH_LIMITS__: not the name of a key",
            "RALPH_LIMITS__MAX_COSTT: limits.max_costt: unknown key; did you mean `RALPH_LIMITS__MAX_COST_USD`?",
            "RALPH_ORCHESTRATOR_QUOTAS__PATHS: quotas: unknown key",
        ]
    );
    let name = "RALPH_LIMITS__MAX_COSTT".to_owned();
    let errors = project.load().unwrap_err();
    assert_eq!(errors.errors()[2].location, SourceLocation::Variable { name });
}

#[test]
fn wrong_sets() {
    let project = Project::trusting("")
        .set("limits.max_cost", "5")
        .set("limits", "5")
        .set("a = 1\nb", "5")
        .set("limits.max_failures", "-1")
        .set("limits.max_cost_usd", "nan");
    let mut errors = project.errors();
    errors.sort();
    assert_eq!(
        errors,
        [
            "--set: \"a = 1\\nb\" is not a key",
            "--set: limits.max_cost: unknown key; did you mean `limits.max_cost_usd`?",
            "--set: limits.max_cost_usd: expected a finite number, found nan",
            "--set: limits.max_failures: expected a whole number from 1 to 4294967295, found -1",
            "--set: limits: expected a table, found 5",
        ]
    );
}

#[test]
fn a_prompt_of_a_later_layer_replaces_one_of_an_earlier() {
    let file = "run.prompt = 'a.md'";
    let text = Project::trusting(file).set("run.prompt_text", "do it").config();
    assert_eq!((text.run.prompt, text.run.prompt_text.as_deref()), (None, Some("do it")));
    let path = Project::trusting("run.prompt_text = 'x'").var("RALPH_RUN__PROMPT", "b.md");
    assert_eq!(path.config().run.prompt, Some(path.path("b.md")));
    let both =
        Project::trusting("").var("RALPH_RUN__PROMPT", "a").var("RALPH_RUN__PROMPT_TEXT", "b");
    assert_eq!(
        both.errors(),
        [
            "RALPH_RUN__PROMPT_TEXT: run.prompt_text: there is a `prompt` already; only one of the two can be given"
        ]
    );
}

#[test]
fn relative_paths_start_at_the_folder_of_the_file() {
    let project = Project::trusting(
        "[run]\nprompt = './a/../p.md'\nworkspace = 'w/.'\ntemplate = '/t/x/../y'",
    )
    .set("state.dir", "../../s");
    let loaded = project.loaded();
    let dir = project.dir.path();
    assert_eq!(loaded.dir(), dir);
    assert_eq!(loaded.prompt_dir(), dir);
    assert_eq!(loaded.config.run.prompt, Some(dir.join("p.md")));
    assert_eq!(loaded.config.run.workspace, dir.join("w"));
    assert_eq!(loaded.config.run.template.as_deref(), Some(Path::new("/t/y")));
    let above = dir.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    assert_eq!(loaded.config.state.dir, Some(above.join("s")));
}

#[test]
fn a_file_named_relatively_is_shown_so() {
    let errors = load(&Sources { file: "no/such/ralph.toml".into(), ..Sources::default() });
    assert_eq!(errors.unwrap_err().to_string(), "no/such/ralph.toml: there is no such file");
}

#[test]
fn errors_of_adapters_point_into_the_file() {
    let text = "[agent.config]\nmodle = 'x'\nmax_turns = 'many'\n[[validator]]\nkind = 'comand'";
    let project = Project::trusting(text);
    let loaded = project.loaded();
    let show = |error: &dyn ToString| project.without_folder(&error.to_string());
    let key = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
    let unknown = "unknown field `modle`, expected one of `model`, `max_turns`";
    assert_eq!(
        show(&loaded.error_at(&key("agent.config"), Some("modle"), unknown)),
        "ralph.toml:2:1: agent.config.modle: unknown key; did you mean `model`?"
    );
    let wrong = "invalid type: string \"many\", expected u32";
    assert_eq!(
        show(&loaded.error_at(&key("agent.config.max_turns"), None, wrong)),
        "ralph.toml:3:13: agent.config.max_turns: expected a whole number from 0 to 4294967295, found \"many\""
    );
    let missing = "missing field `program`";
    assert_eq!(
        show(&loaded.error_at(&key("validator.0"), None, missing)),
        "ralph.toml:4:1: validator.0: `program` is missing"
    );
    let unknown = loaded.unknown_name_error(
        &key("validator.0.kind"),
        "comand",
        "validator",
        &["command", "git"],
    );
    assert_eq!(
        show(&unknown),
        "ralph.toml:5:8: validator.0.kind: there is no validator called \"comand\"; did you mean `command`?"
    );
    let unknown =
        loaded.unknown_name_error(&key("agent.adapter"), "zzz", "adapter", &["replay", "command"]);
    assert_eq!(unknown.help.unwrap(), "known are: replay, command");
}

#[test]
fn detectors_are_found_again_by_name() {
    let project = Project::trusting(
        "[completion]\ndetectors = ['promise', 'marker']\n[[completion.detector]]\nname = 'marker'",
    );
    let loaded = project.loaded();
    assert_eq!(loaded.detector_key("promise").join("."), "completion.detectors.0");
    assert_eq!(loaded.detector_key("marker").join("."), "completion.detector.0");
    assert_eq!(
        Project::trusting("").loaded().detector_key("promise").join("."),
        "completion.detectors"
    );
}

#[test]
fn only_tables_of_detectors_replace_the_default() {
    let config =
        Project::trusting("[[completion.detector]]\nname = 'promise'\nword = 'DONE'").config();
    let names = config.completion.detectors.iter().map(|d| d.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["promise"]);
}

#[test]
fn what_is_shown() {
    let project = Project::new("[[validator]]\nkind = 'command'\nprogram = ['a\"b', 'c']")
        .set("run.prompt_text", "two\nlines")
        .var("RALPH_LIMITS__MAX_COST_USD", "none");
    let rows = project.loaded().show();
    let row = |key: &str| {
        let row = rows.iter().find(|(name, _, _)| name == key).unwrap();
        (row.1.clone(), project.without_folder(&row.2))
    };
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(row("limits.max_cost_usd"), pair("\"none\"", "RALPH_LIMITS__MAX_COST_USD"));
    assert_eq!(row("limits.max_runtime"), pair("\"4h\"", "default"));
    assert_eq!(row("run.prompt_text"), pair("\"two\\nlines\"", "--set"));
    assert_eq!(row("validator.0.program"), pair("[\"a\\\"b\", \"c\"]", "ralph.toml:3:11"));
    assert_eq!(row("validator.0.name"), pair("\"command\"", "default"));
    assert!(rows.iter().all(|(_, value, _)| !value.contains('\n')));
}

#[test]
fn limits_in_a_journal() {
    let limits = Limits { max_runtime: None, ..Limits::default() };
    let json = serde_json::to_value(&limits).unwrap();
    assert_eq!(
        json,
        json!({"max_iterations": 100, "max_runtime": null, "max_cost_usd": 50.0, "max_tokens": null,
            "iteration_timeout": "30m", "idle_timeout": "15m", "max_failures": 5, "max_stagnant": 10,
            "max_rejections": 3, "max_wait": "6h", "max_window": {}})
    );
    assert_eq!(serde_json::from_value::<Limits>(json).unwrap(), limits);
}

#[test]
fn a_budget_of_all_runs_is_the_users_alone() {
    let budget = "[budget]\nmax_cost_usd = { day = 20, month = 150.5 }\nmax_tokens.week = 1_000";
    let project = Project::trusting("").user(budget);
    let of_user = project.config().budget;
    assert_eq!(of_user.max_cost_usd.day, Usd::from_dollars(20.0));
    assert_eq!(of_user.max_cost_usd.month, Usd::from_dollars(150.5));
    assert_eq!((of_user.max_cost_usd.week, of_user.max_tokens.week), (None, Some(1_000)));
    assert!(!of_user.benchmarks && !of_user.is_unlimited());
    // Else a run that goes on without a file would have it from its workspace's configuration.
    assert!(!project.loaded().resolved_toml().contains("budget"));
    let message = "ralph.toml:1:2: budget: belongs into the user's own configuration: agents can write this file";
    assert_eq!(Project::trusting(budget).user(budget).errors(), [message]);
    for (text, expected) in [
        ("max_cost_usd = 5", "user.toml:2:16: budget.max_cost_usd: "),
        ("max_cost_usd.day = 0", "user.toml:2:20: budget.max_cost_usd.day: "),
        ("max_tokens.year = 1", "user.toml:2:12: budget.max_tokens.year: "),
    ] {
        let errors = Project::trusting("").user(&format!("[budget]\n{text}")).errors();
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{errors:?}");
    }
}
