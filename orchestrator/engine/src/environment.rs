//! The environment of agents and validators.

use std::collections::BTreeMap;

use ralph_orchestrator_config::{Env, EnvMode, is_inherited, matches_name};
use ralph_orchestrator_contract::Description;

/// Returns the environment for `agent` out of the orchestrator's own `vars`.
pub(super) fn build(
    env: &Env,
    vars: &BTreeMap<String, String>,
    agent: &Description,
) -> BTreeMap<String, String> {
    let is_wanted = |name: &str| agent.wants_env.iter().any(|pattern| matches_name(pattern, name));
    let passed = |name: &str| env.passes(name) || is_wanted(name);
    let stripped =
        |name: &str| agent.strips_env.iter().any(|prefix| name.starts_with(prefix.as_str()));
    let mut result: BTreeMap<String, String> = vars
        .iter()
        .filter(|(name, _)| match env.mode {
            EnvMode::Clean => passed(name) || is_inherited(name),
            EnvMode::Inherit => passed(name) || !stripped(name),
        })
        // The configuration of the orchestrator is not the agent's.
        .filter(|(name, _)| !name.starts_with("RALPH_") || passed(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    result.extend(env.set.iter().map(|(name, value)| (name.clone(), value.clone())));
    result
}

/// Has checks in a checkout work there: a server that lives already would do it outside. Gradle then uses no daemon, however its
/// command is written.
pub(super) fn keep_in_checkout(env: &mut BTreeMap<String, String>) {
    let options = env.entry("GRADLE_OPTS".to_owned()).or_default();
    *options = format!("{options} -Dorg.gradle.daemon=false").trim_start().to_owned();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars() -> BTreeMap<String, String> {
        ["HOME", "LC_ALL", "SECRET", "CLAUDECODE", "AGENT_KEY", "RALPH_LIMITS__MAX_COST_USD"]
            .into_iter()
            .map(|name| (name.to_owned(), "value".to_owned()))
            .collect()
    }

    fn agent() -> Description {
        Description {
            wants_env: vec!["AGENT_KEY".into()],
            strips_env: vec!["CLAUDE".into()],
            ..Description::default()
        }
    }

    fn names(env: &Env) -> Vec<String> {
        build(env, &vars(), &agent()).into_keys().collect()
    }

    #[test]
    fn clean_takes_the_allowed_the_passed_and_the_set() {
        let mut env = Env::default();
        assert_eq!(names(&env), ["AGENT_KEY", "HOME", "LC_ALL"]);
        env.pass.push("SECRET".into());
        env.set.insert("TZ".into(), "UTC".into());
        assert_eq!(names(&env), ["AGENT_KEY", "HOME", "LC_ALL", "SECRET", "TZ"]);
    }

    #[test]
    fn inherit_strips_only_what_the_agent_must_not_see() {
        let mut env = Env { mode: EnvMode::Inherit, ..Env::default() };
        assert_eq!(names(&env), ["AGENT_KEY", "HOME", "LC_ALL", "SECRET"]);
        env.pass.push("CLAUDECODE".into());
        assert_eq!(names(&env), ["AGENT_KEY", "CLAUDECODE", "HOME", "LC_ALL", "SECRET"]);
    }

    #[test]
    fn options_of_gradle_are_kept_beside_ours() {
        let with = |options: Option<&str>| {
            let mut env: BTreeMap<String, String> =
                options.into_iter().map(|text| ("GRADLE_OPTS".into(), text.into())).collect();
            keep_in_checkout(&mut env);
            env.remove("GRADLE_OPTS")
        };
        assert_eq!(with(None).as_deref(), Some("-Dorg.gradle.daemon=false"));
        assert_eq!(with(Some("-Xmx1g")).as_deref(), Some("-Xmx1g -Dorg.gradle.daemon=false"));
    }
}
