//! Pull requests, which GitLab calls merge requests.

use crate::pull_request_text::PullRequestText;

/// A pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    pub(crate) number: u64,
    /// Its address.
    pub url: String,
    pub(crate) title: String,
    pub(crate) body: String,
    /// What became of it.
    pub state: RequestState,
}

/// What became of a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// It waits.
    Open,
    /// It was merged.
    Merged,
    /// It was closed without being merged.
    Closed,
}

/// What a branch is proposed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPullRequest {
    /// The branch, which is at the host.
    pub branch: String,
    /// The title, one line.
    pub title: String,
    /// The title that it was given before, if it was: one that a person gave it stays.
    pub title_before: Option<String>,
    /// What is said of the work.
    pub text: PullRequestText,
}
