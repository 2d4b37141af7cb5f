//! The pull request of a run that is complete, or of the complete items of a backlog.
//!
//! Each step can be repeated: a branch that is pushed already is pushed again without effect, and an open pull request of
//! the branch is found. That the last step is done is recorded with the worktree; until then each `run` does it again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_config::OnComplete;
use ralph_orchestrator_driver::{ItemRun, read_ledger};
use ralph_orchestrator_engine::Redactor;
use ralph_orchestrator_forge::{CodeHost, ForgeError, HostClient, NewPullRequest};
use ralph_orchestrator_git::{Remote, Repository};
use ralph_orchestrator_machine::StopReason;
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use ralph_orchestrator_shell_text::{quote_command, quote_word};
use ralph_orchestrator_store::{
    Disk, Layout, StoredRun, WorktreeRecord, read_current_run, read_run,
};
use ralph_orchestrator_story::completion_report::describe_completion;
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_text::one_line;
use tokio::runtime::Handle;

use super::process::{Confinement, SupervisedGit, environment};
use super::worktree::{find_of, locate};
use crate::context::Context;
use crate::error::CommandError;
use crate::host_programs::HostPrograms;
use crate::sandbox::SandboxPolicy;

/// How often each step is tried, and how long is waited before it is tried again.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// The longest title, in characters.
const LONGEST_TITLE: usize = 100;
/// The longest prompt of which the first line is the title, in bytes.
const LARGEST_PROMPT: usize = 1024 * 1024;

/// What a pull request is opened for.
struct Completed {
    found: StoredRun,
    /// The item of the run; `None` without a backlog.
    item: Option<ItemRun>,
}

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
    let (completed, unproved) = match find_work(context, layout) {
        Ok(found) => found,
        Err(error) => return Some(Err(error.summary())),
    };
    let records = locate(context, layout);
    let last = completed.last()?;
    let record = find_of(&records, &last.found)?.clone();
    let proposal = Proposal::new(context, layout, policy, (record, &completed, &unproved));
    let work = tokio::task::spawn_blocking(move || proposal?.perform());
    work.await.map_err(|error| error.to_string()).flatten().transpose()
}

/// Returns the complete runs that are on the branch, the last one last, and the last runs of items on which agents have worked
/// and that are not complete.
fn find_work(
    context: &Context,
    layout: &Layout,
) -> Result<(Vec<Completed>, Vec<ItemRun>), CommandError> {
    if context.loaded.config.backlog.is_none() {
        let current = read_current_run(layout, |_| {})?;
        let complete = current.filter(|found| found.state.completion().is_some());
        let complete = complete.into_iter().map(|found| Completed { found, item: None }).collect();
        return Ok((complete, Vec::new()));
    }
    let runs = read_ledger(layout)?.unwrap_or_default().runs;
    let is_complete = |entry: &ItemRun| entry.reason == Some(StopReason::Completed);
    let (complete, others): (Vec<ItemRun>, Vec<ItemRun>) = runs.into_iter().partition(is_complete);
    let mut known: BTreeSet<String> = complete.iter().map(|entry| entry.item.clone()).collect();
    let is_work = |entry: &ItemRun| !entry.is_initializer && entry.usage.iterations > 0;
    let worked_on = others.into_iter().rev().filter(is_work);
    let mut unproved: Vec<ItemRun> =
        worked_on.filter(|entry| known.insert(entry.item.clone())).collect();
    unproved.reverse();
    let read = |entry: ItemRun| -> Result<Completed, CommandError> {
        let found = read_run(layout, &entry.run, |_| {})?.found;
        Ok(Completed { found, item: Some(entry) })
    };
    Ok((complete.into_iter().map(read).collect::<Result<_, _>>()?, unproved))
}

/// A pull request that is to be opened.
struct Proposal {
    git: SupervisedGit,
    context: Context,
    layout: Layout,
    record: WorktreeRecord,
    run: String,
    title: String,
    body: String,
    redactor: Redactor,
}

impl Proposal {
    fn new(
        context: &Context,
        layout: &Layout,
        policy: Option<&SandboxPolicy>,
        (record, completed, unproved): (WorktreeRecord, &[Completed], &[ItemRun]),
    ) -> Result<Self, String> {
        let redactor = Redactor::new(&context.loaded.config.env, &context.vars);
        let supervisor = Supervisor::this_binary();
        let places = context.agent_places();
        let git = SupervisedGit::find(supervisor, &context.vars, &places, Handle::current())?;
        let git = git.confined(Confinement::new(policy, context), Vec::new());
        let title = find_title(context, completed).unwrap_or_else(|| record.branch.clone());
        let body = describe(context, completed, unproved, &record);
        Ok(Self {
            git,
            context: context.clone(),
            layout: layout.clone(),
            run: completed.last().map(|last| last.found.run.clone()).unwrap_or_default(),
            title: redactor.text(&title).into_owned(),
            body: redactor.text(&body).into_owned(),
            redactor,
            record,
        })
    }

    /// Performs what is not done yet. Returns the address; `None` if everything is done.
    fn perform(self) -> Result<Option<String>, String> {
        let Self { git, context, layout, mut record, run, title, body, redactor } = self;
        let (workspace, folder) = (record.workspace(), layout.git(&run));
        let text = |error: ralph_orchestrator_git::GitError| error.to_string();
        let vars = environment(&context.vars);
        let repository =
            Repository::discover_with(&workspace, &folder, Arc::new(git), vars).map_err(text)?;
        let branch = record.branch.clone();
        let tip = repository.find_branch_tip(&branch).map_err(text)?;
        let tip = tip.ok_or_else(|| format!("the branch {branch} does not exist any more"))?;
        if record.proposed.as_deref() == Some(tip.as_str()) {
            return Ok(None);
        }
        if record.base == tip.as_str() {
            return Err(format!("the branch {branch} has no commit; there is nothing to propose"));
        }
        let history = repository.read_history(&record.base, &tip).map_err(text)?;
        verify_no_secret(&redactor, &String::from_utf8_lossy(&history))?;
        let remote = repository.find_remote().map_err(text)?.ok_or(
            "the repository has no remote `origin`, and not just one; add it by `git remote add`",
        )?;
        let host = find_host(&context, &remote);
        let by_hand = describe_by_hand(&record, &remote, host);
        repeat(|| repository.push_branch(&remote, &branch), |_| true)
            .map_err(|error| format!("the branch is not pushed: {error}; by hand: {by_hand}"))?;
        let programs = HostPrograms::new(&context.vars, context.agent_places(), &workspace);
        let client = HostClient::new(host, Arc::new(programs), Some(remote.url));
        let new = NewPullRequest { branch, title, body };
        let opened = repeat(|| client.propose(&new), ForgeError::is_temporary);
        let opened = opened.map_err(|error| {
            format!(
                "the branch is pushed, and no pull request is open: {error}; by hand: {by_hand}"
            )
        })?;
        record.proposed = Some(tip.to_string());
        record.write(&Disk::default(), &layout).map_err(|error| error.to_string())?;
        Ok(Some(opened.url))
    }
}

/// Refuses to show others what is masked everywhere else.
fn verify_no_secret(redactor: &Redactor, history: &str) -> Result<(), String> {
    let has_secret = |line: &str| redactor.has_secret(line.as_bytes());
    let Some(at) = history.lines().position(has_secret) else { return Ok(()) };
    let before = history.lines().take(at.saturating_add(1));
    let file = before.filter_map(|line| line.strip_prefix("diff --git a/")).last();
    let file = file.and_then(|names| names.split(" b/").next()).unwrap_or("a message of a commit");
    Err(format!(
        "the branch is not pushed: the value of a secret is in its commits ({}); take it out of them, and change the secret if \
         others have seen it",
        one_line(&redactor.text(file), LONGEST_TITLE)
    ))
}

/// Tries a step again while that may help.
fn repeat<T, E>(
    mut step: impl FnMut() -> Result<T, E>,
    is_temporary: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let mut tries = 1;
    loop {
        match step() {
            Err(error) if tries < TRIES && is_temporary(&error) => {
                std::thread::sleep(PAUSE.saturating_mul(tries));
                tries += 1;
            }
            other => return other,
        }
    }
}

/// Returns the host of the remote: that of the backlog, or GitLab where the address says so.
fn find_host(context: &Context, remote: &Remote) -> CodeHost {
    let kind = context.loaded.config.backlog.as_ref().map(|backlog| backlog.kind.as_str());
    let by_address = match remote.url.contains("gitlab") {
        true => CodeHost::GitLab,
        false => CodeHost::GitHub,
    };
    kind.and_then(CodeHost::from_name).unwrap_or(by_address)
}

fn describe_by_hand(record: &WorktreeRecord, remote: &Remote, host: CodeHost) -> String {
    let branch = quote_word(&record.branch);
    let folder = quote_word(record.folder().display().to_string());
    let open = match host {
        CodeHost::GitHub => format!("gh pr create --draft --fill --head {branch}"),
        CodeHost::GitLab => format!("glab mr create --draft --fill --source-branch {branch}"),
    };
    let push = format!("git -C {folder} push {} {branch}", quote_word(&remote.name));
    format!("`{push}`, then `{open}`; the next `run` tries both again")
}

/// Returns the title: that of the only item, or their number, or the first line of the prompt.
fn find_title(context: &Context, completed: &[Completed]) -> Option<String> {
    let items: Vec<&ItemRun> = completed.iter().filter_map(|done| done.item.as_ref()).collect();
    let title = match items.as_slice() {
        [] => {
            let run = &context.loaded.config.run;
            let read = |path: &std::path::PathBuf| {
                let text = read_file(path, LARGEST_PROMPT, SymlinkPolicy::Refuse).ok()?;
                String::from_utf8(text).ok()
            };
            let text = run.prompt_text.clone().or_else(|| run.prompt.as_ref().and_then(read))?;
            let mut lines = text.lines().map(|line| line.trim_start_matches('#').trim());
            lines.find(|line| !line.is_empty())?.to_owned()
        }
        [only] => only.title.clone(),
        several => format!("{} items of the backlog", several.len()),
    };
    Some(one_line(&title, LONGEST_TITLE)).filter(|title| !title.trim().is_empty())
}

/// Returns the text: the receipt for people.
fn describe(
    context: &Context,
    completed: &[Completed],
    unproved: &[ItemRun],
    record: &WorktreeRecord,
) -> String {
    // What comes last may be cut.
    let mut text = describe_unproved(unproved) + &describe_verification(record);
    for Completed { found, item } in completed {
        if let Some(item) = item {
            text.push_str(&format!("## {}\n\n", name_item(item)));
            text.push_str(&describe_item(context, item, unproved.is_empty()));
        }
        text.push_str(&describe_completion(&found.run, &found.state));
        text.push('\n');
    }
    text
}

fn describe_verification(record: &WorktreeRecord) -> String {
    format!(
        "An agent made the commits on this branch since `{base}`; no person has read them yet. To run the checks of `ralph.toml` \
         again, without those of items:\n\n```sh\ngit fetch origin {branch} && git switch {branch}\nralph-orchestrator verify\n```\n\n",
        branch = record.branch,
        base = record.base.get(..12).unwrap_or(&record.base),
    )
}

/// Says of which work that is on the branch no check has accepted anything.
fn describe_unproved(unproved: &[ItemRun]) -> String {
    if unproved.is_empty() {
        return String::new();
    }
    let items: String = unproved.iter().map(|item| format!("- {}\n", name_item(item))).collect();
    format!(
        "**The branch also has work on items that are not complete**, which no check has accepted, and which may have changed \
         what is complete:\n\n{items}\n"
    )
}

fn name_item(item: &ItemRun) -> String {
    let title = one_line(&item.title, LONGEST_TITLE).replace('`', "'");
    format!("Item {}: `{title}`", one_line(&item.item, 80))
}

/// Says which issue an item is, and by what it is checked besides. An issue is closed by merging only what was proved.
fn describe_item(context: &Context, item: &ItemRun, closes: bool) -> String {
    let Some(backlog) = &context.loaded.config.backlog else { return String::new() };
    let mut text = String::new();
    if CodeHost::from_name(&backlog.kind).is_some() {
        let word = if closes { "Closes" } else { "Part of" };
        let repository = backlog.tracker.repository.as_deref().map(name_repository);
        let repository = repository.unwrap_or_default();
        text.push_str(&format!("{word} {repository}#{}.\n\n", one_line(&item.item, 80)));
    }
    let check = backlog.check_of(&item.item, None);
    if !check.is_empty() {
        let command = one_line(&quote_command(&check), LONGEST_TITLE).replace('`', "'");
        text.push_str(&format!("Its own check: `{command}`\n\n"));
    }
    text
}

/// Returns a repository as references to issues have it, of "acme/widgets", "host/acme/widgets" or an address.
fn name_repository(text: &str) -> String {
    let name = text.trim_end_matches('/').trim_end_matches(".git");
    let path = name.split_once("://").map_or(name, |(_, rest)| rest).replace(':', "/");
    match path.split_once('/') {
        Some((host, rest)) if host.contains('.') && rest.contains('/') => rest.to_owned(),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_without_its_host() {
        for text in [
            "acme/widgets",
            "github.com/acme/widgets",
            "https://github.com/acme/widgets.git",
            "https://github.com/acme/widgets/",
            "git@github.com:acme/widgets.git",
        ] {
            assert_eq!(name_repository(text), "acme/widgets", "{text}");
        }
        assert_eq!(name_repository("https://gitlab.com/a/b/c"), "a/b/c");
        assert_eq!(name_repository("acme.org/widgets"), "acme.org/widgets");
    }
}
