//! The command lines of both programs, and what they print: all that differs between them.
//!
//! A value of others, such as a label, is always part of an argument `--name=value`, or stands after `--`.

use serde::Deserialize;

use crate::host::CodeHost;
use crate::pull_request::{PullRequest, RequestState};

/// Most issues that are read.
pub(crate) const MOST_ISSUES: usize = 1000;
/// Issues that `glab` returns at a time, at most 100. `gh` returns all at once.
const PAGE: usize = 100;

/// The arguments of one command. `--repo` is put after the first two.
pub(crate) type Arguments = Vec<String>;

fn arguments(fixed: &[&str], values: impl IntoIterator<Item = String>) -> Arguments {
    fixed.iter().map(|word| (*word).to_owned()).chain(values).collect()
}

/// An issue as it was printed.
#[derive(Debug)]
pub(crate) struct PrintedIssue {
    pub(crate) number: u64,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) labels: Vec<String>,
}

#[derive(Deserialize)]
struct GitHubIssue {
    number: u64,
    title: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    labels: Vec<GitHubLabel>,
}

#[derive(Deserialize)]
struct GitHubLabel {
    name: String,
}

#[derive(Deserialize)]
struct GitLabIssue {
    iid: u64,
    title: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
}

#[derive(Deserialize)]
struct GitHubComments {
    comments: Vec<GitHubComment>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GitHubComment {
    body: String,
    /// Comments of others say nothing of what was posted.
    #[serde(default = "yes")]
    viewer_did_author: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct GitLabNotes {
    #[serde(rename = "Notes", default)]
    notes: Vec<GitLabNote>,
}

#[derive(Deserialize)]
struct GitLabNote {
    body: String,
}

/// A pull request as either host prints it.
#[derive(Deserialize)]
struct PrintedPullRequest {
    #[serde(alias = "iid")]
    number: u64,
    #[serde(alias = "web_url")]
    url: String,
    #[serde(default)]
    title: String,
    #[serde(default, alias = "description")]
    body: Option<String>,
    state: String,
}

#[derive(Deserialize)]
struct GitHubRepository {
    url: String,
}

#[derive(Deserialize)]
struct GitLabRepository {
    web_url: String,
}

impl CodeHost {
    /// Returns what prints the address of the repository of the folder.
    pub(crate) fn find_repository(self) -> Arguments {
        match self {
            Self::GitHub => arguments(&["repo", "view", "--json=url"], []),
            Self::GitLab => arguments(&["repo", "view", "--output=json"], []),
        }
    }

    /// Reads that address.
    pub(crate) fn read_repository(self, text: &[u8]) -> serde_json::Result<String> {
        match self {
            Self::GitHub => serde_json::from_slice::<GitHubRepository>(text).map(|found| found.url),
            Self::GitLab => {
                serde_json::from_slice::<GitLabRepository>(text).map(|found| found.web_url)
            }
        }
    }

    /// Returns what prints the open issues with a label, those of this page from 1.
    pub(crate) fn list_issues(self, label: &str, page: usize) -> Arguments {
        match self {
            Self::GitHub => arguments(
                &["issue", "list", "--state=open", "--json=number,title,body,labels"],
                [format!("--limit={MOST_ISSUES}"), format!("--label={label}")],
            ),
            Self::GitLab => arguments(
                &["issue", "list", "--output=json"],
                [
                    format!("--per-page={PAGE}"),
                    format!("--page={page}"),
                    format!("--label={label}"),
                ],
            ),
        }
    }

    /// Reads a page of issues, and whether there may be another one.
    pub(crate) fn read_issues(self, text: &[u8]) -> serde_json::Result<(Vec<PrintedIssue>, bool)> {
        match self {
            Self::GitHub => {
                let issues: Vec<GitHubIssue> = serde_json::from_slice(text)?;
                let issues = issues.into_iter().map(|issue| PrintedIssue {
                    number: issue.number,
                    title: issue.title,
                    body: issue.body.unwrap_or_default(),
                    labels: issue.labels.into_iter().map(|label| label.name).collect(),
                });
                Ok((issues.collect(), false))
            }
            Self::GitLab => {
                let issues: Vec<GitLabIssue> = serde_json::from_slice(text)?;
                let has_more = issues.len() >= PAGE;
                let issues = issues.into_iter().map(|issue| PrintedIssue {
                    number: issue.iid,
                    title: issue.title,
                    body: issue.description.unwrap_or_default(),
                    labels: issue.labels,
                });
                Ok((issues.collect(), has_more))
            }
        }
    }

    /// Returns what creates a label, and fails if it exists.
    pub(crate) fn create_label(self, name: &str, color: &str, description: &str) -> Arguments {
        let description = format!("--description={description}");
        match self {
            Self::GitHub => arguments(
                &["label", "create"],
                [format!("--color={color}"), description, "--".to_owned(), name.to_owned()],
            ),
            Self::GitLab => arguments(
                &["label", "create"],
                [format!("--name={name}"), format!("--color=#{color}"), description],
            ),
        }
    }

    /// Returns what adds and removes labels of an issue.
    pub(crate) fn edit_labels(self, issue: u64, add: &[&str], remove: &[&str]) -> Arguments {
        let (command, adding, removing) = match self {
            Self::GitHub => ("edit", "--add-label", "--remove-label"),
            Self::GitLab => ("update", "--label", "--unlabel"),
        };
        let add = add.iter().map(|label| format!("{adding}={label}"));
        let remove = remove.iter().map(|label| format!("{removing}={label}"));
        let values: Vec<String> =
            [issue.to_string()].into_iter().chain(add).chain(remove).collect();
        arguments(&["issue", command], values)
    }

    /// Returns what prints the comments of an issue: of GitLab the last 100.
    pub(crate) fn list_comments(self, issue: u64) -> Arguments {
        match self {
            Self::GitHub => arguments(&["issue", "view", "--json=comments"], [issue.to_string()]),
            Self::GitLab => arguments(
                &["issue", "view", "--comments", "--output=json", "--per-page=100"],
                [issue.to_string()],
            ),
        }
    }

    /// Reads the texts of comments that may be the user's own.
    pub(crate) fn read_comments(self, text: &[u8]) -> serde_json::Result<Vec<String>> {
        match self {
            Self::GitHub => {
                let comments = serde_json::from_slice::<GitHubComments>(text)?.comments;
                let own = comments.into_iter().filter(|comment| comment.viewer_did_author);
                Ok(own.map(|comment| comment.body).collect())
            }
            Self::GitLab => {
                let notes = serde_json::from_slice::<GitLabNotes>(text)?.notes;
                Ok(notes.into_iter().map(|note| note.body).collect())
            }
        }
    }

    /// Returns what comments on an issue, and what it reads from standard input.
    pub(crate) fn comment(self, issue: u64, text: &str) -> (Arguments, Vec<u8>) {
        let issue = issue.to_string();
        match self {
            Self::GitHub => {
                let command = arguments(&["issue", "comment", "--body-file=-"], [issue]);
                (command, text.as_bytes().to_vec())
            }
            // Its text is an argument or is asked for by an editor.
            Self::GitLab => {
                (arguments(&["issue", "note"], [issue, format!("--message={text}")]), Vec::new())
            }
        }
    }

    /// Returns what prints the pull requests of a branch, also those that are not open any more.
    pub(crate) fn list_pull_requests(self, branch: &str) -> Arguments {
        match self {
            Self::GitHub => arguments(
                &["pr", "list", "--state=all", "--json=number,url,title,body,state"],
                [format!("--head={branch}")],
            ),
            Self::GitLab => arguments(
                &["mr", "list", "--all", "--output=json"],
                [format!("--source-branch={branch}")],
            ),
        }
    }

    /// Reads them.
    pub(crate) fn read_pull_requests(self, text: &[u8]) -> serde_json::Result<Vec<PullRequest>> {
        let found: Vec<PrintedPullRequest> = serde_json::from_slice(text)?;
        let read = |found: PrintedPullRequest| PullRequest {
            number: found.number,
            url: found.url,
            title: found.title,
            body: found.body.unwrap_or_default(),
            state: match found.state.to_ascii_lowercase().as_str() {
                "merged" => RequestState::Merged,
                "closed" => RequestState::Closed,
                // GitLab says "opened", and "locked" while it merges.
                _ => RequestState::Open,
            },
        };
        Ok(found.into_iter().map(read).collect())
    }

    /// Returns what opens a draft pull request onto the default branch and prints its address, and what it reads from
    /// standard input.
    pub(crate) fn create_pull_request(
        self,
        branch: &str,
        title: &str,
        body: &str,
    ) -> (Arguments, Vec<u8>) {
        let title = format!("--title={title}");
        match self {
            Self::GitHub => {
                let values = [format!("--head={branch}"), title];
                let fixed = ["pr", "create", "--draft", "--body-file=-"];
                (arguments(&fixed, values), body.as_bytes().to_vec())
            }
            Self::GitLab => {
                let body = format!("--description={body}");
                let values = [format!("--source-branch={branch}"), title, body];
                (arguments(&["mr", "create", "--draft", "--yes"], values), Vec::new())
            }
        }
    }

    /// Returns what writes the text of a pull request anew, and its title if one is given, and what it reads from standard
    /// input.
    pub(crate) fn edit_pull_request(
        self,
        number: u64,
        title: Option<&str>,
        body: &str,
    ) -> (Arguments, Vec<u8>) {
        let number = [number.to_string()].into_iter();
        let values = number.chain(title.map(|title| format!("--title={title}")));
        match self {
            Self::GitHub => {
                (arguments(&["pr", "edit", "--body-file=-"], values), body.as_bytes().to_vec())
            }
            Self::GitLab => {
                let values = values.chain([format!("--description={body}")]);
                (arguments(&["mr", "update"], values), Vec::new())
            }
        }
    }
}
