//! Names of environment variables: what a clean environment takes over, and whose values are secrets.

use crate::model::Env;

/// The shortest value that counts as a secret, in characters: shorter ones stand in text that has nothing to do with
/// them.
pub const SHORTEST_SECRET: usize = 6;

/// What a clean environment takes over: what programs need to find their way about. A trailing `*` matches any rest.
const INHERITED: [&str; 33] = [
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
/// What else says only how programs run, and where things are. Their values stand in all kinds of output.
const HARMLESS: [&str; 48] = [
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "HOSTNAME",
    "HOST",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "COLUMNS",
    "LINES",
    "LANGUAGE",
    "CI",
    "DEBUG",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR*",
    "TERM_PROGRAM*",
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "GIT_AUTHOR_*",
    "GIT_COMMITTER_*",
    "GIT_CONFIG_GLOBAL",
    "CARGO_BUILD_*",
    "CARGO_INCREMENTAL",
    "CARGO_PROFILE_*",
    "CARGO_TARGET_*",
    "CARGO_TERM_*",
    "RUST*",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "LD_LIBRARY_PATH",
    "PKG_CONFIG_PATH",
    "GOFLAGS",
    "GOCACHE",
    "GOMODCACHE",
    "NODE_ENV",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PYTHON*",
    "PYTEST_*",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "IS_SANDBOX",
];
/// What the names of variables with secrets end with, in upper case.
const SECRET_ENDS: [&str; 9] =
    ["_KEY", "APIKEY", "_TOKEN", "_SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "_PAT", "_DSN"];

impl Env {
    /// Returns whether the variable is handed over because the configuration names it in `pass`.
    #[must_use]
    pub fn passes(&self, name: &str) -> bool {
        self.pass.iter().any(|pattern| matches_name(pattern, name))
    }

    /// Returns whether a variable's value is a secret wherever it stands: its name says so, or `pass` or `set` hand it
    /// over and it is not known to be harmless.
    #[must_use]
    pub fn is_secret(&self, name: &str) -> bool {
        let is_handed_over = || self.set.contains_key(name) || self.passes(name);
        is_secret_name(name) || (is_handed_over() && !is_harmless(name))
    }
}

/// Returns whether a variable's name marks it as a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

/// Returns whether a clean environment takes the variable over.
#[must_use]
pub fn is_inherited(name: &str) -> bool {
    INHERITED.iter().any(|pattern| matches_name(pattern, name))
}

fn is_harmless(name: &str) -> bool {
    let mut all = INHERITED.iter().chain(&HARMLESS);
    all.any(|pattern| matches_name(pattern, name))
}

/// Returns whether a name is what the pattern says, in which a trailing `*` matches any rest.
#[must_use]
pub fn matches_name(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_is_a_secret_unless_it_is_known_to_be_harmless() {
        let mut env = Env::default();
        env.pass.extend(
            ["MY_DSN", "DB_*", "PWD", "PYTHONPATH", "LANG", "RUST_TOKEN"].map(str::to_owned),
        );
        env.set.insert("SERVICE".into(), "value".into());
        env.set.insert("PATH".into(), "/bin".into());
        for name in ["MY_DSN", "DB_URL", "SERVICE", "RUST_TOKEN", "OTHER_KEY", "my_password"] {
            assert!(env.is_secret(name), "{name}");
        }
        for name in ["PWD", "PYTHONPATH", "LANG", "PATH", "HOME", "EDITOR", "UNKNOWN"] {
            assert!(!env.is_secret(name), "{name}");
        }
        env.pass.push("*".into());
        assert!(env.is_secret("UNKNOWN") && !env.is_secret("EDITOR"));
    }
}
