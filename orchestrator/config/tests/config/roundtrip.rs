//! The resolved configuration, loaded again, is the same.

use proptest::prelude::*;

use crate::Project;

fn again(project: &Project) {
    let first = project.loaded();
    let text = first.resolved_toml();
    let other = Project::new(&text);
    let second = other.load().unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(second.config, first.config, "{text}");
    assert_eq!(second.resolved_toml(), text);
}

#[test]
fn the_complete_file_and_the_empty_one() {
    again(&Project::new(include_str!("complete.toml")));
    again(&Project::trusting(""));
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        "\\PC{1,6}".prop_map(|text| format!("x{text}")),
        Just("a \"quoted\"\nline\u{1}\u{7f}\t'''\\ \"\"\" ü".to_owned()),
    ]
}

/// What can be the name of something.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", "\\PC{1,6}".prop_map(|text| format!("x{text}"))]
}

/// A value as an adapter's own table may have it.
fn value() -> impl Strategy<Value = toml::Value> {
    let leaf = prop_oneof![
        text().prop_map(toml::Value::String),
        any::<i64>().prop_map(toml::Value::Integer),
        any::<bool>().prop_map(toml::Value::Boolean),
        (-1e300..1e300).prop_map(toml::Value::Float),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(toml::Value::Array),
            prop::collection::btree_map(text(), inner, 0..4)
                .prop_map(|table| toml::Value::Table(table.into_iter().collect())),
        ]
    })
}

fn open() -> impl Strategy<Value = toml::Table> {
    prop::collection::btree_map(text().prop_map(|key| format!("o{key}")), value(), 0..4)
        .prop_map(|table| table.into_iter().collect())
}

fn duration() -> impl Strategy<Value = toml::Value> {
    (1u64..10_000_000, 0u64..1000)
        .prop_map(|(seconds, millis)| toml::Value::String(format!("{seconds}s {millis}ms")))
}

fn or_none(value: impl Strategy<Value = toml::Value>) -> impl Strategy<Value = toml::Value> {
    prop_oneof![3 => value, 1 => Just(toml::Value::String("none".into()))]
}

fn or_until_reset(value: impl Strategy<Value = toml::Value>) -> impl Strategy<Value = toml::Value> {
    prop_oneof![3 => value, 1 => Just(toml::Value::String("until reset".into()))]
}

fn limits() -> impl Strategy<Value = toml::Table> {
    let count = || (1i64..=u32::MAX.into()).prop_map(toml::Value::Integer);
    let dollars = (0.0..1e6).prop_map(toml::Value::Float);
    let columns = (
        (count(), or_none(duration()), or_none(dollars), or_none(count())),
        (duration(), duration(), or_until_reset(duration())),
        (count(), count(), count()),
    );
    columns.prop_map(|((iterations, runtime, cost, tokens), (one, idle, wait), (a, b, c))| {
        [
            ("max_iterations", iterations),
            ("max_runtime", runtime),
            ("max_cost_usd", cost),
            ("max_tokens", tokens),
            ("iteration_timeout", one),
            ("idle_timeout", idle),
            ("max_wait", wait),
            ("max_failures", a),
            ("max_stagnant", b),
            ("max_rejections", c),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
    })
}

fn agent() -> impl Strategy<Value = toml::Table> {
    let prices = prop::option::of([0.0..1e9, 0.0..1.0, 0.0..1e-9, 0.0..100.0]);
    (name(), open(), any::<bool>(), prices).prop_map(|(adapter, config, unmetered, prices)| {
        let mut agent = toml::Table::new();
        agent.insert("adapter".into(), adapter.into());
        agent.insert("config".into(), config.into());
        agent.insert("unmetered".into(), unmetered.into());
        if let Some(prices) = prices {
            let keys = ["input", "output", "cache_read", "cache_write"];
            let prices =
                keys.into_iter().zip(prices).map(|(k, v)| (k.to_owned(), toml::Value::Float(v)));
            agent.insert("prices".into(), toml::Value::Table(prices.collect()));
        }
        agent
    })
}

fn validators() -> impl Strategy<Value = Vec<toml::Value>> {
    let one = (name(), open(), any::<bool>(), duration());
    prop::collection::vec(one, 0..4).prop_map(|all| {
        all.into_iter()
            .map(|(kind, mut table, required, timeout)| {
                table.insert("kind".into(), kind.into());
                table.insert("required".into(), required.into());
                table.insert("timeout".into(), timeout);
                toml::Value::Table(table)
            })
            .collect()
    })
}

fn detectors() -> impl Strategy<Value = toml::Table> {
    let names = prop::collection::btree_set(name(), 1..3).prop_map(Vec::from_iter);
    let tables = prop::collection::btree_map(name(), open(), 0..3);
    (names, tables).prop_map(|(names, tables)| {
        let tables = tables.into_iter().map(|(name, mut table)| {
            table.insert("name".into(), name.into());
            toml::Value::Table(table)
        });
        let mut completion = toml::Table::new();
        completion.insert("detectors".into(), names.into());
        completion.insert("detector".into(), tables.collect::<Vec<_>>().into());
        completion
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_configuration(
        limits in limits(),
        agent in agent(),
        agents in prop::collection::btree_map(name(), agent(), 0..3),
        validators in validators(),
        completion in detectors(),
        prompt in prop_oneof![text().prop_map(|t| ("prompt", t)), text().prop_map(|t| ("prompt_text", t))],
        set in prop::collection::btree_map("[A-Z_]{1,6}", text(), 0..3),
    ) {
        let mut file = toml::Table::new();
        file.insert("limits".into(), limits.into());
        file.insert("agent".into(), agent.into());
        file.insert("agents".into(), toml::Value::Table(agents.into_iter().map(|(k, v)| (k, v.into())).collect()));
        file.insert("validator".into(), validators.into());
        file.insert("completion".into(), completion.into());
        file.insert("run".into(), toml::Value::Table([(prompt.0.to_owned(), prompt.1.into())].into_iter().collect()));
        let set = toml::Value::Table(set.into_iter().map(|(k, v)| (k, v.into())).collect());
        file.insert("env".into(), toml::Value::Table([("set".to_owned(), set)].into_iter().collect()));
        again(&Project::trusting(toml::to_string(&file).unwrap()));
    }

    /// Whatever is in the file, loading ends with an answer and the answer can be shown.
    #[test]
    fn any_text(text in "([a-z.\"'=\\[\\]{}# \n\\\\é0-9_]|limits|validator|run|agent|none){0,60}") {
        match Project::trusting(&text).load() {
            Ok(loaded) => drop(loaded.show()),
            Err(errors) => {
                prop_assert!(!errors.errors().is_empty());
                prop_assert!(!errors.to_string().is_empty());
            }
        }
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Err(errors) = Project::trusting(&bytes).load() {
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}
