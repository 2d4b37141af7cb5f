//! The environment of agents and validators.

use std::collections::BTreeMap;

use ralph_orchestrator_config::{Env, EnvMode};
use ralph_orchestrator_contract::Description;

/// What a clean environment takes over: what programs need to find their way about, and nothing that
/// carries a secret. A trailing `*` matches any rest.
const ALLOWED: &[&str] = &[
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "COLORTERM",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "NVM_DIR",
    "PYENV_ROOT",
    "JAVA_HOME",
    "GOPATH",
    "GOROOT",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
];

/// The environment for `agent` out of the orchestrator's own `vars`.
pub(super) fn build(
    env: &Env,
    vars: &BTreeMap<String, String>,
    agent: &Description,
) -> BTreeMap<String, String> {
    let passed =
        |name: &str| env.pass.iter().chain(&agent.wants_env).any(|pattern| matches(pattern, name));
    let stripped =
        |name: &str| agent.strips_env.iter().any(|prefix| name.starts_with(prefix.as_str()));
    let mut result: BTreeMap<String, String> = vars
        .iter()
        .filter(|(name, _)| match env.mode {
            EnvMode::Clean => passed(name) || ALLOWED.iter().any(|pattern| matches(pattern, name)),
            EnvMode::Inherit => passed(name) || !stripped(name),
        })
        // The configuration of the orchestrator is not the agent's.
        .filter(|(name, _)| !name.starts_with("RALPH_") || passed(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    result.extend(env.set.iter().map(|(name, value)| (name.clone(), value.clone())));
    result
}

/// Whether the variable is handed on only because the configuration names it.
pub(super) fn is_passed_as_secret(env: &Env, name: &str) -> bool {
    env.pass.iter().any(|pattern| matches(pattern, name))
        && !ALLOWED.iter().any(|pattern| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
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
}
