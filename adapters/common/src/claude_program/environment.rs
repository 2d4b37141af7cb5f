//! The environment of `claude`.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{AgentError, ErrorClass};

/// What it needs to reach a model. Keys of cloud accounts are not among them, as they open more than
/// a model: who uses them names them in `env.pass`.
pub const WANTS: [&str; 36] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "ANTHROPIC_FOUNDRY_BASE_URL",
    "ANTHROPIC_FOUNDRY_RESOURCE",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_PROFILE",
    "AWS_REGION",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CONFIG_DIR",
    "CLOUD_ML_REGION",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "IS_SANDBOX",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Prefixes of what it must not inherit: also `CLAUDECODE`, which marks a process as started by another Claude Code.
pub const STRIPS: [&str; 2] = ["CLAUDE", "ANTHROPIC_"];

/// Set unless they are set already. Back-off is the orchestrator's: it knows the limits. And what runs
/// in an iteration shall be the program that was there when the run began.
const DEFAULTS: [(&str, &str); 2] =
    [("CLAUDE_CODE_MAX_RETRIES", "2"), ("DISABLE_AUTOUPDATER", "1")];

/// The iteration's environment with the adapter's defaults.
pub(crate) fn complete(mut env: BTreeMap<String, String>) -> BTreeMap<String, String> {
    for (name, value) in DEFAULTS {
        env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    env
}

/// Refuses to start as root: there `claude` does not bypass permissions unless it is marked as being in a
/// sandbox, and reports that in one line on standard error only. `allow` is the key of what is
/// allowed.
pub(crate) fn refuse_root(
    is_root: bool,
    env: &BTreeMap<String, String>,
    allow: &str,
) -> Result<(), AgentError> {
    let set = |name: &str| env.get(name).map(String::as_str).unwrap_or_default();
    let bubblewrap = !matches!(set("CLAUDE_CODE_BUBBLEWRAP"), "" | "0" | "false");
    if !is_root || set("IS_SANDBOX") == "1" || bubblewrap {
        return Ok(());
    }
    Err(AgentError::new(
        ErrorClass::InvalidRequest,
        format!(
            "claude refuses `permission_mode = \"bypassPermissions\"` (the default) for root. If this \
             is a sandbox or container, say so by `IS_SANDBOX=1` before the command, or, in ralph.toml, \
             `[env] set = {{ IS_SANDBOX = \"1\" }}`. \
             If not, run as another user, or set in [agent.config] `permission_mode = \
             \"acceptEdits\"` and, in `{allow}`, what it may do beyond editing files"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_root_outside_a_sandbox_is_refused() {
        assert!(refuse_root(false, &env(&[]), "allow").is_ok());
        assert!(refuse_root(true, &env(&[("IS_SANDBOX", "1")]), "allow").is_ok());
        assert!(refuse_root(true, &env(&[("CLAUDE_CODE_BUBBLEWRAP", "1")]), "allow").is_ok());
        // claude compares with exactly "1".
        for sandbox in ["", "0", "yes", "true"] {
            let error = refuse_root(true, &env(&[("IS_SANDBOX", sandbox)]), "allow").unwrap_err();
            assert!(error.message.contains("IS_SANDBOX = \"1\""), "{error}");
        }
    }

    #[test]
    fn what_the_user_sets_stands() {
        let env = complete(env(&[("CLAUDE_CODE_MAX_RETRIES", "9")]));
        assert_eq!(env["CLAUDE_CODE_MAX_RETRIES"], "9");
        assert_eq!(env["DISABLE_AUTOUPDATER"], "1");
    }

    #[test]
    fn no_name_is_listed_twice() {
        assert!(WANTS.is_sorted_by(|a, b| a < b));
    }
}
