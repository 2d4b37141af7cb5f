//! The pull request of a run that is complete, or of the complete items of a backlog.
//!
//! Each step can be repeated: a branch that is pushed already is pushed again without effect, and an open pull request of
//! the branch is found. That the last step is done is recorded with the worktree; until then each `run` does it again.

use std::sync::Arc;

use ralph_orchestrator_config::OnComplete;
use ralph_orchestrator_engine::Redactor;
use ralph_orchestrator_forge::{CodeHost, ForgeError, HostClient, NewPullRequest, PullRequestText};
use ralph_orchestrator_git::{ObjectId, Remote, Repository};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::{Disk, Layout};
use ralph_orchestrator_text::one_line;

use super::branch_push::{PushedBranch, push_branch, repeat};
use super::branch_work::{BranchWork, Opening};
use super::proposal_text::{describe, find_title};
use crate::context::Context;
use crate::host_programs::HostPrograms;
use crate::messages;
use crate::sandbox::SandboxPolicy;

/// What is shown of a file's name, in characters.
const LONGEST_NAME: usize = 200;

/// Pushes the branch and opens its pull request, if `[git] on_complete` asks for that and it is not done. Returns its
/// address, or why there is none and what to do by hand; `None` if there is nothing to do.
pub async fn propose(
    context: &Context,
    layout: &Layout,
    policy: Option<&SandboxPolicy>,
) -> Option<Result<String, String>> {
    if context.loaded.config.git.on_complete != OnComplete::PullRequest {
        return None;
    }
    let work = match BranchWork::find(context, layout) {
        Ok(work) => work.filter(|work| !work.complete.is_empty())?,
        Err(error) => return Some(Err(error.summary())),
    };
    let (context, layout, policy) = (context.clone(), layout.clone(), policy.cloned());
    let opening = Opening::here();
    let work = move || perform(&context, &layout, policy.as_ref(), (work, opening));
    let work = tokio::task::spawn_blocking(work);
    work.await.map_err(|error| error.to_string()).flatten().transpose()
}

/// Performs what is not done yet. Returns the address; `None` if everything is done.
fn perform(
    context: &Context,
    layout: &Layout,
    policy: Option<&SandboxPolicy>,
    (work, opening): (BranchWork, Opening),
) -> Result<Option<String>, String> {
    let repository = work.open(context, policy, opening)?;
    let tip = work.find_tip(&repository)?;
    if work.record.proposed.as_deref() == Some(tip.as_str()) {
        return Ok(None);
    }
    let Some(PushedBranch { remote, tip }) = push_branch(context, &work, &repository)? else {
        let branch = &work.record.branch;
        messages::info(&format!("the branch {branch} has no commit: there is nothing to propose"));
        return Ok(None);
    };
    let workflows = find_workflows(&repository, &work.record.base, &tip)?;
    if !workflows.is_empty() {
        let files = workflows.join(", ");
        messages::info(&format!(
            "warning: the branch changes what its host may run as soon as it is pushed, with the repository's secrets: {files}"
        ));
    }
    let redactor = Redactor::new(&context.loaded.config.env, &context.vars);
    let title = redactor.text(&find_title(context, &work)).into_owned();
    let new = NewPullRequest {
        branch: work.record.branch.clone(),
        title: title.clone(),
        title_before: work.record.proposed_title.clone(),
        text: mask(describe(context, &work, &workflows), &redactor),
    };
    let host = find_host(context, &remote);
    let client = find_client(context, &work, (host, &remote));
    let opened = repeat(|| client.propose(&new), ForgeError::is_temporary);
    let opened = opened.map_err(|error| {
        let by_hand = describe_by_hand(&new.branch, &remote, host);
        format!(
            "the branch is pushed, and no pull request is open: {error}; by hand: `{by_hand}`; the next `run` tries it again"
        )
    })?;
    let mut record = work.record;
    record.proposed = Some(tip.to_string());
    record.proposed_title = Some(title);
    record.write(&Disk::default(), layout).map_err(|error| error.to_string())?;
    Ok(Some(opened.url))
}

/// Returns the files by which hosts run programs and that the branch changes, on one line each.
fn find_workflows(
    repository: &Repository,
    base: &str,
    tip: &ObjectId,
) -> Result<Vec<String>, String> {
    let base = ObjectId::parse(base).ok_or_else(|| format!("{base:?} is no id of a commit"))?;
    let changed = repository.list_differences(&base, tip).map_err(|error| error.to_string())?;
    let names = changed.iter().map(|path| one_line(&path.to_string(), LONGEST_NAME));
    let is_workflow =
        |name: &String| name.starts_with(".github/workflows/") || name.as_str() == ".gitlab-ci.yml";
    Ok(names.filter(is_workflow).collect())
}

fn mask(mut text: PullRequestText, redactor: &Redactor) -> PullRequestText {
    let sections = text.sections.iter_mut();
    let parts = sections.flat_map(|section| [&mut section.opening, &mut section.details]);
    for part in parts.chain([&mut text.opening]) {
        *part = redactor.text(part).into_owned();
    }
    text
}

/// Returns what asks the host of a remote about its repository.
pub(super) fn find_client(
    context: &Context,
    work: &BranchWork,
    (host, remote): (CodeHost, &Remote),
) -> HostClient {
    let workspace = work.record.workspace();
    let programs = HostPrograms::new(&context.vars, context.agent_places(), &workspace);
    HostClient::new(host, Arc::new(programs), Some(remote.url.clone()))
}

/// Returns the host of the remote: that of the backlog, or GitLab where the address says so.
pub(super) fn find_host(context: &Context, remote: &Remote) -> CodeHost {
    let kind = context.loaded.config.backlog.as_ref().map(|backlog| backlog.kind.as_str());
    let by_address = match remote.url.contains("gitlab") {
        true => CodeHost::GitLab,
        false => CodeHost::GitHub,
    };
    kind.and_then(CodeHost::from_name).unwrap_or(by_address)
}

fn describe_by_hand(branch: &str, remote: &Remote, host: CodeHost) -> String {
    let (branch, url) = (quote_word(branch), quote_word(&remote.url));
    match host {
        CodeHost::GitHub => format!("gh pr create --repo {url} --draft --fill --head {branch}"),
        CodeHost::GitLab => {
            format!("glab mr create --repo {url} --draft --fill --source-branch {branch}")
        }
    }
}
