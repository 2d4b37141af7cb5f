//! Why a code host was not read or written, and whether waiting helps.

use ralph_orchestrator_text::one_line;

use crate::host::CodeHost;
use crate::program::ProgramOutput;

/// What a message shows of what a program printed, in characters.
const MOST_SHOWN: usize = 400;

/// The exit status of `gh` where nobody is logged in.
const NOT_AUTHENTICATED: i32 = 4;

/// Words that the programs print where nobody is logged in, or the login is not valid.
const LOGIN_WORDS: [&str; 5] =
    ["auth login", "http 401", "401 unauthorized", "bad credentials", "invalid_token"];
/// The same where too much was asked in a short time.
const RATE_WORDS: [&str; 5] =
    ["rate limit", "http 429", "429 too many requests", "abuse detection", "retry later"];
/// The same where the host was not reached, or is out of order for now.
const NETWORK_WORDS: [&str; 16] = [
    "error connecting to",
    "dial tcp",
    "no such host",
    "connection refused",
    "connection reset",
    "network is unreachable",
    "i/o timeout",
    "tls handshake",
    "context deadline exceeded",
    "unexpected eof",
    "http 500",
    "http 502",
    "http 503",
    "http 504",
    "502 bad gateway",
    "503 service",
];
/// The same where there is no such repository, or this login may not see it.
const MISSING_WORDS: [&str; 3] = ["could not resolve to a repository", "http 404", "404 not found"];

/// Why a code host was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// Its program is not installed.
    #[error(
        "{program} is not installed; install it ({page}) and log in with `{program} auth login`"
    )]
    Missing {
        /// The program.
        program: &'static str,
        /// Where it is to be had.
        page: &'static str,
    },
    /// The program cannot be started or talked to.
    #[error("{program} cannot be run: {problem}")]
    Run {
        /// The program.
        program: &'static str,
        /// What went wrong.
        problem: String,
    },
    /// Nobody is logged in, or the login is no longer valid.
    #[error("{program} is not logged in: {message}; run `{program} auth login`, or set {variable}")]
    NotLoggedIn {
        /// The program.
        program: &'static str,
        /// What it printed.
        message: String,
        /// The variable that it takes a token from.
        variable: &'static str,
    },
    /// Too much was asked in a short time.
    #[error("{title} limits how often it is asked: {message}; wait, or ask less often")]
    RateLimited {
        /// The host.
        title: &'static str,
        /// What its program printed.
        message: String,
    },
    /// The host was not reached.
    #[error("{title} cannot be reached: {message}; check the network")]
    Unreachable {
        /// The host.
        title: &'static str,
        /// What its program printed.
        message: String,
    },
    /// There is no such repository, or this login may not see it.
    #[error(
        "{title} has no such repository or issue for this login: {message}; check `repository` and `{program} auth status`"
    )]
    NotFound {
        /// The host.
        title: &'static str,
        /// Its program.
        program: &'static str,
        /// What it printed.
        message: String,
    },
    /// The program failed.
    #[error("`{program} {command}` failed with status {status}: {message}")]
    Failed {
        /// The program.
        program: &'static str,
        /// Its command.
        command: String,
        /// Its exit status.
        status: i32,
        /// What it printed.
        message: String,
    },
    /// It printed something else than expected.
    #[error(
        "`{program} {command}` printed something else than expected: {problem}; update {program}"
    )]
    Output {
        /// The program.
        program: &'static str,
        /// Its command.
        command: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl ForgeError {
    /// Whether waiting may help.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Unreachable { .. })
    }

    /// Returns why a process could not be started or did not end.
    pub(crate) fn from_io(host: CodeHost, error: &std::io::Error) -> Self {
        let program = host.program();
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::Missing { program, page: host.program_page() },
            std::io::ErrorKind::TimedOut => {
                Self::Unreachable { title: host.title(), message: error.to_string() }
            }
            _ => Self::Run { program, problem: error.to_string() },
        }
    }

    /// Returns why a command failed, from what it printed.
    pub(crate) fn from_output(host: CodeHost, command: &str, output: &ProgramOutput) -> Self {
        let text = String::from_utf8_lossy(&output.stderr);
        let message = one_line(text.trim(), MOST_SHOWN);
        let lower = text.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let (program, title) = (host.program(), host.title());
        if has(&RATE_WORDS) {
            Self::RateLimited { title, message }
        } else if output.status == NOT_AUTHENTICATED || has(&LOGIN_WORDS) {
            let variable = match host {
                CodeHost::GitHub => "GH_TOKEN",
                CodeHost::GitLab => "GITLAB_TOKEN",
            };
            Self::NotLoggedIn { program, message, variable }
        } else if has(&NETWORK_WORDS) {
            Self::Unreachable { title, message }
        } else if has(&MISSING_WORDS) {
            Self::NotFound { title, program, message }
        } else {
            Self::Failed { program, command: command.to_owned(), status: output.status, message }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_says_whether_waiting_helps_and_what_to_do() {
        let table = [
            (
                1,
                "error connecting to api.github.com\ncheck your internet connection",
                true,
                "network",
            ),
            (1, "HTTP 403: API rate limit exceeded for user ID 1.", true, "wait"),
            (1, "HTTP 429: Too Many Requests", true, "wait"),
            (1, "GraphQL: 502 Bad Gateway", true, "network"),
            (
                4,
                "To get started with GitHub CLI, please run:  gh auth login",
                false,
                "gh auth login",
            ),
            (1, "HTTP 401: Bad credentials", false, "gh auth login"),
            (
                1,
                "GraphQL: Could not resolve to a Repository with the name 'a/b'.",
                false,
                "`repository`",
            ),
            (1, "'x' not found", false, "`gh issue edit` failed with status 1: 'x' not found"),
        ];
        for (status, stderr, is_temporary, says) in table {
            let output = ProgramOutput {
                status,
                stdout: Vec::new(),
                is_truncated: false,
                stderr: stderr.as_bytes().to_vec(),
            };
            let error = ForgeError::from_output(CodeHost::GitHub, "issue edit", &output);
            assert_eq!(error.is_temporary(), is_temporary, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
