//! The branch of a worktree at the remote.

use std::time::Duration;

use ralph_orchestrator_engine::Redactor;
use ralph_orchestrator_git::{HistorySecret, ObjectId, Remote, Repository, SecretSign};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::WorktreeRecord;
use ralph_orchestrator_text::{count, one_line};

use super::branch_work::BranchWork;
use super::worktree_maker::{find_copies, shorten_commit};
use crate::context::Context;

/// How often each step is tried, and how long is waited before it is tried again.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// What is shown of a file's name, in characters.
const LONGEST_NAME: usize = 100;

/// A branch that is at the remote.
pub(super) struct PushedBranch {
    pub(super) remote: Remote,
    pub(super) tip: ObjectId,
}

/// Pushes the branch, unless it has no commit. One that is pushed already is pushed again without effect.
pub(super) fn push_branch(
    context: &Context,
    work: &BranchWork,
    repository: &Repository,
) -> Result<Option<PushedBranch>, String> {
    let text = |error: ralph_orchestrator_git::GitError| error.to_string();
    let record = &work.record;
    let tip = work.find_tip(repository)?;
    if record.base == tip.as_str() {
        return verify_nothing_left(context, work, repository).map(|()| None);
    }
    let remote = repository.find_remote().map_err(text)?.ok_or(
        "the repository has no remote `origin`, and not just one; add it by `git remote add`",
    )?;
    let redactor = Redactor::new(&context.loaded.config.env, &context.vars);
    let is_known = |line: &[u8]| redactor.has_secret(line);
    let range = (record.base.as_str(), &tip);
    let found = repository.find_secret(range, &remote, &record.branch, &is_known).map_err(text)?;
    if let Some(found) = found {
        return Err(refuse_secret(&found, &redactor, (record, &remote)));
    }
    repeat(|| repository.push_branch(&remote, &record.branch), |_| true).map_err(|error| {
        let by_hand = describe_push(record, &remote);
        format!(
            "the branch is not pushed: {error}; by hand: `{by_hand}`; the next `run` tries it again"
        )
    })?;
    Ok(Some(PushedBranch { remote, tip }))
}

/// Fails if work that is complete is in no commit.
fn verify_nothing_left(
    context: &Context,
    work: &BranchWork,
    repository: &Repository,
) -> Result<(), String> {
    let (record, folder) = (&work.record, work.record.folder());
    let copies = find_copies(&context.loaded, record);
    let branch = (record.branch.as_str(), record.base.as_str());
    let found = repository.find_worktree_work(&folder, branch, &copies);
    let found = found.map_err(|error| error.to_string())?;
    let at = folder.display();
    match found.uncommitted {
        Some(0) => Ok(()),
        Some(files) => {
            Err(format!("{} in {at} are in no commit; commit them there", count(files, "file")))
        }
        None => Err(format!(
            "what is in no commit in {at} is not known, since git's configuration was changed"
        )),
    }
}

/// Returns the command that pushes the branch.
pub(super) fn describe_push(record: &WorktreeRecord, remote: &Remote) -> String {
    let (folder, branch) = (quote_word(record.folder()), quote_word(&record.branch));
    format!("git -C {folder} push {} {branch}", quote_word(&remote.name))
}

/// Says which commit shows others a secret, and what to do.
fn refuse_secret(
    found: &HistorySecret,
    redactor: &Redactor,
    (record, remote): (&WorktreeRecord, &Remote),
) -> String {
    let sign = match found.sign {
        SecretSign::Name => "looks like a file of secrets",
        SecretSign::Key => "has what looks like a key",
        SecretSign::Value => "has the value of a secret",
    };
    let commit = shorten_commit(&found.commit);
    let file = found.file.as_deref().map(|file| redactor.text(file));
    let place = match file {
        Some(file) => format!("{} in commit {commit}", one_line(&file, LONGEST_NAME)),
        None => format!("the message of commit {commit}"),
    };
    let (folder, base) = (quote_word(record.folder()), shorten_commit(&record.base));
    format!(
        "the branch is not pushed: {place} {sign}; take it out of the commits (`git -C {folder} rebase -i {base}`), and change the \
         secret if others have seen it; if it is none, `{}`, and the next `run` goes on",
        describe_push(record, remote)
    )
}

/// Tries a step again while that may help.
pub(super) fn repeat<T, E>(
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
