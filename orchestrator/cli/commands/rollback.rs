//! `rollback`

use std::io;

use jiff::Timestamp;
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git;
use ralph_orchestrator_assembly::git::blocking;
use ralph_orchestrator_assembly::git::open_stored;
use ralph_orchestrator_assembly::git::skip_reason;
use ralph_orchestrator_assembly::run_selection::no_run_error;
use ralph_orchestrator_engine::bookkeeping_paths;
use ralph_orchestrator_git::{
    Checkpoint, CheckpointName, RepoPath, RollbackGuard, RollbackOutcome, SkippedFile,
};
use ralph_orchestrator_store::{Disk, Layout, Lock, PendingRollback, Rollbacks, Work};
use ralph_orchestrator_story::diff::StoredRepository;
use ralph_orchestrator_story::words::short_object_id;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_text::{count, len, local, one_line};
use serde_json::json;

/// Files that are named.
const MOST_FILES: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct RollbackArgs {
    /// List the checkpoints of the run
    #[arg(long, conflicts_with = "to")]
    pub(crate) list: bool,
    /// Make the workspace's files what this checkpoint has: an iteration, 0 for the run's start, or
    /// rollback/N for what was there before a rollback
    #[arg(long, value_name = "CHECKPOINT", value_parser = parse_name)]
    pub(crate) to: Option<CheckpointName>,
    /// Use the checkpoints of an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

fn parse_name(text: &str) -> Result<CheckpointName, String> {
    let number = |digits: &str| digits.parse::<u64>().ok();
    match text.strip_prefix("rollback/") {
        Some(digits) => number(digits).map(CheckpointName::BeforeRollback),
        None => number(text).map(CheckpointName::Iteration),
    }
    .ok_or_else(|| "expected an iteration such as 3, or rollback/1".to_owned())
}

pub(crate) fn rollback(file: &ConfigFile, args: &RollbackArgs) -> Result<u8, CommandError> {
    if args.to.is_none() && !args.list {
        let message = "rollback: name a checkpoint with --to, or list them with --list";
        return Err(CommandError::user(message));
    }
    let context = git::enter_existing(Context::with(file, &args.sets)?)?;
    let Some(to) = args.to else {
        let checkpoints = block_on(async {
            let stored = open_stored(&context, args.run.as_deref()).await?;
            blocking(move || stored.repository.list_checkpoints(&stored.run)).await
        })?;
        print_list(&checkpoints?, args.json);
        return Ok(exit::OK);
    };
    if !context.layout()?.root().exists() {
        return Err(no_run_error());
    }
    let outcome = restore(&context, to, args.run.as_deref())?;
    let run = args.run.as_ref().map(|run| format!(" --run {run}")).unwrap_or_default();
    print_outcome(&outcome, &context::invocation(file), &run, args.json);
    Ok(exit::OK)
}

/// Finishes the rollback that was interrupted, if one was: some files are old, and some are new.
///
/// # Errors
/// It cannot be finished; the message says how it was to be.
pub(crate) fn finish_interrupted(context: &Context) -> Result<(), CommandError> {
    let Ok(layout) = context.layout() else { return Ok(()) };
    let Some(pending) = Rollbacks::read(&Disk::default(), &layout)?.pending else { return Ok(()) };
    let context = git::enter_existing(context.clone())?;
    let PendingRollback { run, to } = pending;
    let to = parse_name(&to).map_err(CommandError::internal)?;
    let outcome = restore(&context, to, Some(&run))?;
    let saved = outcome.saved.map(|saved| format!("; what was there is checkpoint {}", saved.name));
    output::info(&format!(
        "finished the rollback to checkpoint {to}, which was interrupted{}",
        saved.unwrap_or_default()
    ));
    Ok(())
}

/// Returns what there is to say of a rollback that was interrupted, if one was.
pub(crate) fn describe_interrupted(layout: &Layout) -> Result<Option<String>, CommandError> {
    let pending = Rollbacks::read(&Disk::default(), layout)?.pending;
    let pending = pending.filter(|_| Lock::holder(layout).is_none());
    Ok(pending.map(|PendingRollback { to, .. }| {
        format!(
            "the rollback to checkpoint {to} was interrupted: some files are old, and some are new; the next `run` \
             finishes it"
        )
    }))
}

/// Makes the workspace's files what a checkpoint has. It is recorded before the first file is changed and after the
/// last, so that an interrupted one can be finished.
fn restore(
    context: &Context,
    to: CheckpointName,
    run: Option<&str>,
) -> Result<RollbackOutcome, CommandError> {
    let layout = context.layout()?;
    let disk = Disk::default();
    // Held until the end: no run begins meanwhile.
    let _state = Lock::take(&disk, &layout, Work::Rollback)?;
    let _workspace = context.lock_workspace()?;
    // What the work on a backlog has led to is not undone with the files.
    let kept = bookkeeping_paths(&context.loaded.config)
        .map_err(|error| CommandError::config(format!("run.bookkeeping: {error}")))?;
    let outcome = block_on(async {
        let stored = open_stored(context, run).await?;
        let (disk, layout) = (disk.clone(), layout.clone());
        blocking(move || {
            let is_kept = |path: &RepoPath| kept.contains(path.as_path());
            let StoredRepository { repository, run, .. } = &stored;
            let begin = |saved: Option<&Checkpoint>| {
                let mut rollbacks = Rollbacks::read(&disk, &layout).map_err(io::Error::other)?;
                let id = String::from(run.clone());
                if let Some(Checkpoint { name, commit, .. }) = saved
                    && let CheckpointName::BeforeRollback(number) = name
                {
                    rollbacks.add_saved(&id, *number, commit.to_string());
                }
                rollbacks.pending = Some(PendingRollback { run: id, to: to.to_string() });
                rollbacks.write(&disk, &layout).map_err(io::Error::other)
            };
            let guard = RollbackGuard::SaveFirst;
            let mut outcome = repository.rollback_except(run, to, guard, &is_kept, &begin)?;
            outcome.files.iter_mut().for_each(|file| file.path = stored.mask_path(&file.path));
            let not_restored = outcome.not_restored.iter_mut();
            not_restored.for_each(|file| file.path = stored.mask_path(&file.path));
            Ok::<_, CommandError>(outcome)
        })
        .await
    })??;
    let mut rollbacks = Rollbacks::read(&disk, &layout)?;
    if rollbacks.pending.take().is_some() {
        rollbacks.write(&disk, &layout)?;
    }
    Ok(outcome)
}

fn print_list(checkpoints: &[Checkpoint], is_json: bool) {
    if is_json {
        return output::json(&checkpoints.iter().map(to_json).collect::<Vec<_>>());
    }
    if checkpoints.is_empty() {
        output::result("this run has no checkpoints");
    }
    for checkpoint in checkpoints {
        let time = Timestamp::from_second(checkpoint.time).map(local).unwrap_or_default();
        let subject = one_line(&checkpoint.subject, 100);
        let id = short_object_id(checkpoint.commit.as_str());
        let without = match len(&checkpoint.left_out) {
            0 => String::new(),
            files => format!("; without {}", count(files, "file")),
        };
        let name = checkpoint.name.to_string();
        output::result(&format!("{name:<12} {id}  {time}  {subject}{without}"));
    }
}

fn to_json(checkpoint: &Checkpoint) -> serde_json::Value {
    json!({
        "checkpoint": checkpoint.name.to_string(),
        "commit": checkpoint.commit,
        "tree": checkpoint.tree,
        "time": Timestamp::from_second(checkpoint.time).ok(),
        "subject": checkpoint.subject,
        "left_out": len(&checkpoint.left_out),
    })
}

/// Names what checkpoints leave out.
fn print_not_restored(files: &[SkippedFile]) {
    if files.is_empty() {
        return;
    }
    output::result("not restored, since checkpoints leave it out; left as it is:");
    for file in files.iter().take(MOST_FILES) {
        output::result(&format!("  {} ({})", file.path, skip_reason(file.reason)));
    }
    let more = files.len().saturating_sub(MOST_FILES);
    if more > 0 {
        output::result(&format!("  and {more} more"));
    }
}

fn print_outcome(outcome: &RollbackOutcome, program: &str, run: &str, is_json: bool) {
    if is_json {
        return output::json(&json!({
            "target": to_json(&outcome.target),
            "saved": outcome.saved.as_ref().map(to_json),
            "files": outcome.files,
            "not_restored": outcome.not_restored,
        }));
    }
    let target = outcome.target.name;
    if outcome.files.is_empty() {
        let as_far = match outcome.not_restored.is_empty() {
            true => "",
            false => ", as far as that has its files",
        };
        output::result(&format!("the workspace is as in checkpoint {target} already{as_far}"));
        return print_not_restored(&outcome.not_restored);
    }
    for file in outcome.files.iter().take(MOST_FILES) {
        output::result(&format!("  {}", file.path));
    }
    let more = outcome.files.len().saturating_sub(MOST_FILES);
    if more > 0 {
        output::result(&format!("  and {more} more"));
    }
    let files = count(len(&outcome.files), "file");
    output::result(&format!(
        "{files} restored to checkpoint {target}; branch, HEAD and index are as they were"
    ));
    print_not_restored(&outcome.not_restored);
    match &outcome.saved {
        Some(saved) => output::info(&format!(
            "what was there is checkpoint {name}; `{program} rollback --to {name}{run}` undoes this",
            name = saved.name
        )),
        None => output::info(&format!(
            "what was there is in a checkpoint: see `{program} rollback --list{run}`"
        )),
    }
}
