//! `escalate`, `escalate_after` and `start` of an agent.

use crate::Project;

#[test]
fn mistakes() {
    let agents = "[agents.a]\n[agents.b]\nescalate = ['a']\n";
    let cases: &[(&str, &[&str])] = &[
        ("escalate = ['a', 'a']", &["agent.escalate.1: \"a\" is named twice"]),
        (
            "escalate = ['a', 'b']",
            &["agent.escalate.1: \"b\" has an `escalate` of its own; name its agents here"],
        ),
        ("escalate = ['c']", &["agent.escalate.0: there is no agent called \"c\""]),
        (
            "escalate = ['a']\nescalate_after = { failures = 0 }",
            &["agent.escalate_after.failures: must be at least 1"],
        ),
        ("start = 'last'", &["agent.start: has no meaning without `escalate`"]),
    ];
    for (text, expected) in cases {
        let errors = Project::trusting(format!("[agent]\n{text}\n{agents}")).errors();
        assert_eq!(errors.len(), expected.len(), "{text}: {errors:?}");
        for (error, expected) in errors.iter().zip(*expected) {
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

#[test]
fn the_first_works_and_each_has_its_own_fallbacks() {
    let text = "[agent]\nescalate = ['a', 'b']\nfallback = ['c']\n[agents.a]\nfallback = ['b']\n[agents.b]\n[agents.c]";
    let config = Project::trusting(text).config();
    assert_eq!(config.first_agent(None), Some("a"));
    assert_eq!(config.first_agent(Some("c")), Some("c"));
    assert_eq!(config.fallback(None), ["b"]);
    assert_eq!(config.other_agents(None), ["b"]);
    assert_eq!(config.other_agents(Some("a")), ["b"]);
    assert!(config.escalation(Some("a")).is_none());
}
