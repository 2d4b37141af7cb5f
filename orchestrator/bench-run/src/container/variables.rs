//! The environment variables of a process in a container: no value of them is an argument, which everybody on the
//! machine could read, unless it cannot be a secret.

use std::collections::BTreeMap;
use std::io;

/// Variables that say where something is on this machine. Those that a process would inherit say nothing in a
/// container.
const OF_MACHINE: [&str; 16] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
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
    "DISPLAY",
    "WAYLAND_DISPLAY",
];
/// Variables that would change what the client of the engine does, and are no secrets: they are arguments.
const AS_ARGUMENTS: [&str; 21] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "XDG_*",
    "LD_*",
    "LC_*",
    "LANG",
    "GO*",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "LOCPATH",
    "MALLOC_*",
    "STORAGE_*",
    "BUILDAH_*",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NOTIFY_SOCKET",
    "LISTEN_*",
];
/// Variables that would change what the client does, and may be secrets: a process has the client's values or none.
pub(super) const OF_CLIENT: [&str; 11] = [
    "DOCKER_*",
    "CONTAINER_*",
    "CONTAINERS_*",
    "REGISTRY_AUTH_FILE",
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// What becomes of the variables of this machine in a container.
#[derive(Clone, Debug, Default)]
pub(super) struct ContainerVariables {
    /// The orchestrator's own.
    pub(super) host: BTreeMap<String, String>,
    /// Whether the home folder of this machine is in the container, in part.
    pub(super) has_home: bool,
}

impl ContainerVariables {
    /// Returns the values of `--env` for the variables of a process, and the environment of the client that starts it.
    ///
    /// # Errors
    /// A variable has a value that the client cannot pass on.
    pub(super) fn split(
        &self,
        wanted: BTreeMap<String, String>,
        client: &BTreeMap<String, String>,
    ) -> io::Result<(Vec<String>, BTreeMap<String, String>)> {
        let (mut options, mut env) = (Vec::new(), client.clone());
        for (name, value) in wanted {
            if self.is_inherited(&name, &value) {
                continue;
            }
            if client.get(&name) == Some(&value) {
                options.push(name);
            } else if matches(&AS_ARGUMENTS, &name) {
                options.push(format!("{name}={value}"));
            } else if matches(&OF_CLIENT, &name) || client.contains_key(&name) {
                return Err(io::Error::other(format!(
                    "the variable {name} cannot have another value in a container than for the container engine"
                )));
            } else {
                options.push(name.clone());
                env.insert(name, value);
            }
        }
        Ok((options, env))
    }

    /// Whether a variable has the value that it has on this machine, and says nothing in a container.
    fn is_inherited(&self, name: &str, value: &str) -> bool {
        let is_home_seen = self.has_home && name == "HOME";
        !is_home_seen
            && matches(&OF_MACHINE, name)
            && self.host.get(name).is_some_and(|known| known == value)
    }
}

/// Whether a name is in a list. A trailing `*` matches any rest.
pub(super) fn matches(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| {
        pattern.strip_suffix('*').map_or(*pattern == name, |rest| name.starts_with(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn secrets_are_named_and_never_written() {
        let client = map(&[("PATH", "/usr/bin"), ("HOME", "/home/me"), ("HTTP_PROXY", "http://p")]);
        let wanted = map(&[
            ("API_KEY", "secret"),
            ("TWO_LINES", "a\nb"),
            ("PATH", "/image/bin"),
            ("LD_PRELOAD", "/app/evil.so"),
            ("HTTP_PROXY", "http://p"),
        ]);
        let (options, env) = ContainerVariables::default().split(wanted, &client).unwrap();
        let expected =
            ["API_KEY", "HTTP_PROXY", "LD_PRELOAD=/app/evil.so", "PATH=/image/bin", "TWO_LINES"];
        assert_eq!(options, expected);
        assert_eq!(env["API_KEY"], "secret");
        assert_eq!(env["TWO_LINES"], "a\nb");
        assert_eq!(env["PATH"], "/usr/bin");
        assert!(!env.contains_key("LD_PRELOAD"));
    }

    #[test]
    fn the_client_keeps_its_own_values() {
        let client = map(&[("DOCKER_HOST", "unix:///run/docker.sock")]);
        for name in ["DOCKER_HOST", "DOCKER_CONFIG", "https_proxy"] {
            let wanted = map(&[(name, "other")]);
            let error = ContainerVariables::default().split(wanted, &client).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn what_says_where_things_are_on_this_machine_is_not_inherited() {
        let host = map(&[("HOME", "/home/me"), ("GOPATH", "/home/me/go"), ("TERM", "xterm")]);
        let mut variables = ContainerVariables { host: host.clone(), has_home: false };
        let options = |variables: &ContainerVariables, wanted: &BTreeMap<String, String>| {
            variables.split(wanted.clone(), &BTreeMap::new()).unwrap().0
        };
        assert_eq!(options(&variables, &host), ["TERM"]);
        let set = map(&[("GOPATH", "/go"), ("HOME", "/root")]);
        assert_eq!(options(&variables, &set), ["GOPATH=/go", "HOME=/root"]);
        variables.has_home = true;
        assert_eq!(options(&variables, &host), ["HOME=/home/me", "TERM"]);
    }
}
