//! Code hosts through their own programs: GitHub through `gh`, GitLab through `glab`. Issues with a label are a
//! backlog, whose statuses are labels.
//!
//! [`IssueBacklog`] is that backlog, a [`PullRequest`] what a branch is proposed with, and [`HostClient`] is what it asks. The programs are started by whoever implements
//! [`RunHostProgram`]. Their differences stand in one place, `commands.rs`.
//!
//! What a host returns is written by strangers: it is bounded and cleaned before it is an item, and is never an option
//! of a command line.
//!
//! The crate must not know runs, agents, processes or configuration.

mod client;
mod commands;
mod error;
mod host;
mod issue;
mod issue_backlog;
mod labels;
mod program;
mod propose;
mod pull_request;
mod pull_request_text;

pub use client::HostClient;
pub use error::ForgeError;
pub use host::CodeHost;
pub use issue_backlog::{IssueBacklog, IssueBacklogSettings, MaskText};
pub use labels::{StatusLabels, check_label};
pub use program::{ProgramOutput, ProgramPlace, ProgramRequest, RunHostProgram};
pub use pull_request::{NewPullRequest, PullRequest, RequestState};
pub use pull_request_text::{PullRequestText, TextSection};
