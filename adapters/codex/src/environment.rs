//! The environment of `codex`.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What it needs to reach a model.
pub(crate) const WANTS: [&str; 17] = [
    "AZURE_OPENAI_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "CODEX_CA_CERTIFICATE",
    "CODEX_HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORGANIZATION",
    "OPENAI_PROJECT",
    "SSL_CERT_FILE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// What another Codex tells the programs that it starts.
pub(crate) const STRIPS: [&str; 1] = ["CODEX_"];

/// Where Codex keeps what it knows, in this environment.
pub(crate) fn codex_home(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    match set("CODEX_HOME") {
        Some(home) => Some(PathBuf::from(home)),
        None => Some(PathBuf::from(set("HOME")?).join(".codex")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_home_is_where_codex_looks() {
        let env = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(codex_home(&env(&[])), None);
        assert_eq!(codex_home(&env(&[("HOME", "/h")])), Some("/h/.codex".into()));
        let both = env(&[("HOME", "/h"), ("CODEX_HOME", "/c")]);
        assert_eq!(codex_home(&both), Some("/c".into()));
        assert!(WANTS.is_sorted_by(|a, b| a < b));
    }
}
