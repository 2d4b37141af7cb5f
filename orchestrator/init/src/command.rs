//! `init`

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::found_backlog::{FoundBacklog, find_backlog};
use ralph_orchestrator_assembly::placeholder::is_placeholder;
use ralph_orchestrator_assembly::trust::Trust;
use ralph_orchestrator_assembly::user_folders;
use ralph_orchestrator_terminal::new_file::create_new;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::write_whole;

use crate::check::ProposedChecks;
use crate::next_commands::{next_commands, option_of, say};
use crate::preset::PresetFolder;
use crate::{agent, check_run, ignore, preset, prompt, systemd};

#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// The command that proves the work done, such as --test "cargo test"
    #[arg(long, value_name = "COMMAND")]
    pub(crate) test: Option<String>,
    /// Write a systemd user unit that runs an existing configuration
    #[arg(long, conflicts_with_all = ["test", "agent", "words", "goal", "gitignore", "no_run", "preset"])]
    pub(crate) systemd: bool,
    /// A known way of working: ralph, pure-loop, ada or autocoder
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// With --preset, in an empty folder: a sample task, and a recorded agent that completes it
    #[arg(long, requires = "preset", conflicts_with_all = ["test", "agent", "words", "goal", "gitignore", "force"])]
    pub(crate) demo: bool,
    /// The agent: claude, codex, gemini, opencode, goose, qwen, copilot or claude-sdk [default: the first
    /// that is installed]
    #[arg(long, value_name = "NAME", conflicts_with = "words")]
    pub(crate) agent: Option<String>,
    /// Any other agent: its program and arguments, after `--`
    #[arg(last = true, value_name = "AGENT")]
    pub(crate) words: Vec<String>,
    /// What is to be done; goes into the new PROMPT.md
    #[arg(long, value_name = "TEXT")]
    pub(crate) goal: Option<String>,
    /// Add what the checks leave behind to .gitignore
    #[arg(long)]
    pub(crate) gitignore: bool,
    /// Write the checks without running them once
    #[arg(long)]
    pub(crate) no_run: bool,
    /// Overwrite an existing ralph.toml, but never a prompt
    #[arg(long)]
    pub(crate) force: bool,
}

const CONFIG: &str = include_str!("../templates/ralph.toml");

/// What a configuration in a repository offers.
const GIT: &str = "\n# [git]\n# worktree = true        # the run works in a worktree and on a branch of its own; your checkout stays yours\n\
    # commit = \"iteration\"   # commit after each iteration what it changed\n";

/// What is to be done where a list of work says the rest.
const ITEMS_GOAL: &str = "Work on the current item of the list of work, which follows.";

/// The table of a list of work.
fn backlog_table(found: &FoundBacklog) -> String {
    format!(
        "# The list of work: each item is worked on in a run of its own.\n[backlog]\nkind = \"{}\"\npath = \"{}\"\n\n",
        found.kind, found.name
    )
}

/// Performs `init`.
///
/// # Errors
/// A file cannot be written, or what is asked for does not go together.
pub fn init(file: &Path, args: &InitArgs) -> Result<u8, CommandError> {
    if args.systemd {
        return systemd::write(file, args.force);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let preset = args.preset.as_deref().map(PresetFolder::find).transpose()?;
    if let Some(preset) = preset.as_ref().filter(|_| args.demo) {
        return preset::write_demo(preset, folder);
    }
    let prompt = file.with_file_name("PROMPT.md");
    let keeps_config = exists(file)? && !args.force;
    let keeps_prompt = exists(&prompt)?;
    if args.gitignore && keeps_config && keeps_prompt {
        return add_to_gitignore(folder);
    }
    refuse(file, &prompt, args, (keeps_config, keeps_prompt))?;
    let (mut checks, mut backlog) = (None, None);
    if keeps_config {
        say(&format!("kept {} unchanged", file.display()));
    } else {
        let found = ProposedChecks::find(folder, args.test.as_deref())?;
        // A preset has a list of its own, or none.
        let (list, notes) = match &preset {
            Some(_) => (None, Vec::new()),
            None => find_backlog(folder),
        };
        backlog = list;
        write_config(file, &found, args, folder, (preset.as_ref(), backlog.as_ref()))?;
        notes.iter().for_each(|note| say(&format!("  {note}")));
        checks = Some(found);
    }
    if let Some(preset) = &preset {
        preset.write_files(folder)?;
    }
    let has_prompt = preset.as_ref().is_none_or(PresetFolder::has_prompt);
    if has_prompt {
        // The items say what to do.
        let of_items = backlog.as_ref().map(|_| ITEMS_GOAL);
        let goal = args.goal.as_deref().or(of_items);
        write_prompt(&prompt, keeps_prompt, goal, preset.as_ref())?;
    }
    if let Some(checks) = &checks {
        artefacts(folder, args, checks)?;
        if has_prompt && !checks.found.is_empty() && !args.no_run {
            check_run::run(file)?.iter().for_each(|line| say(line));
        }
    }
    if !has_prompt {
        preset::say_next(file);
        return Ok(exit::OK);
    }
    let needs_task = is_placeholder(&prompt);
    let needs_check = preset.is_none() && checks.is_some_and(|checks| checks.found.is_empty());
    next(file, &prompt, needs_task, needs_check);
    Ok(exit::OK)
}

/// Writes the prompt of the task, unless there is one.
fn write_prompt(
    path: &Path,
    is_kept: bool,
    goal: Option<&str>,
    preset: Option<&PresetFolder>,
) -> Result<(), CommandError> {
    let text = prompt::text(goal);
    let text = match preset {
        Some(preset) => preset.prompt(text),
        None => text,
    };
    if !is_kept && create_new(path, &text)? {
        say(&format!("wrote {}", path.display()));
    } else {
        say(&format!("kept {} unchanged", path.display()));
    }
    Ok(())
}

/// Refuses what would have no effect on files that are there.
fn refuse(
    file: &Path,
    prompt: &Path,
    args: &InitArgs,
    (keeps_config, keeps_prompt): (bool, bool),
) -> Result<(), CommandError> {
    let hint = "`init --force` overwrites ralph.toml; a prompt is never overwritten";
    let exists = |path: &Path, flag: &str, hint: &str| {
        let message = format!("{} already exists: {flag} would have no effect", path.display());
        Err(CommandError::user(message).hinted(hint))
    };
    if keeps_config && args.test.is_some() {
        return exists(file, "--test", hint);
    }
    if keeps_config && args.agent.is_some() {
        return exists(file, "--agent", hint);
    }
    if keeps_config && !args.words.is_empty() {
        return exists(file, "the agent after `--`", hint);
    }
    if keeps_prompt && args.goal.is_some() {
        return exists(prompt, "--goal", "write the task into that file, or remove it first");
    }
    if keeps_config && keeps_prompt {
        let message = format!("{} and {} already exist", file.display(), prompt.display());
        return Err(CommandError::user(message).hinted(hint));
    }
    Ok(())
}

/// Whether there is anything of this name, such as a link that leads nowhere.
fn exists(path: &Path) -> Result<bool, CommandError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CommandError::user(format!("{}: {error}", path.display()))),
    }
}

fn write_config(
    file: &Path,
    checks: &ProposedChecks,
    args: &InitArgs,
    folder: &Path,
    (preset, backlog): (Option<&PresetFolder>, Option<&FoundBacklog>),
) -> Result<(), CommandError> {
    let agent = if args.words.is_empty() {
        agent::find(args.agent.as_deref(), folder)?
    } else {
        agent::from_words(&args.words, folder)?
    };
    let text = match preset {
        Some(preset) => preset.config(&agent, checks, folder)?,
        None => CONFIG
            .replace("@AGENT@", &agent.toml)
            .replace("@VALIDATORS@", &checks.toml()?)
            .replace("@BACKLOG@", &backlog.map(backlog_table).unwrap_or_default())
            .replace("@COST@", agent.cost)
            .replace("@GIT@", if ignore::is_in_repository(folder) { GIT } else { "" }),
    };
    if args.force {
        write_whole(file, text.as_bytes(), 0o644)?;
    } else if !create_new(file, &text)? {
        let message = format!("{} was just created by another program", file.display());
        return Err(CommandError::user(message));
    }
    Trust::new(&user_folders::variables(), &[]).accept_own(file, text)?;
    say(&format!("wrote {}", file.display()));
    say(&agent.line);
    if let Some(FoundBacklog { name, counts, .. }) = backlog {
        say(&format!(
            "  works through {name}, {counts} complete; without `[backlog]` it works on the prompt alone"
        ));
    }
    match preset.filter(|_| checks.found.is_empty()) {
        Some(preset) => say(preset.missing_check()),
        None => checks.lines().iter().for_each(|line| say(line)),
    }
    if let Some(more) =
        preset.filter(|_| !checks.found.is_empty()).and_then(PresetFolder::more_proof)
    {
        say(more);
    }
    Ok(())
}

/// Adds what the checks of this folder leave behind to `.gitignore`, where nothing else is to be written.
fn add_to_gitignore(folder: &Path) -> Result<u8, CommandError> {
    let checks = ProposedChecks::find(folder, None)?;
    let missing = ignore::missing(folder, &checks.artefacts());
    if missing.is_empty() {
        output::result(".gitignore lacks nothing that the checks of this folder leave behind");
    } else {
        add_ignored(folder, &missing)?;
    }
    Ok(exit::OK)
}

/// Adds lines to `.gitignore`, and says so.
fn add_ignored(folder: &Path, missing: &[&str]) -> Result<(), CommandError> {
    ignore::add(folder, missing)?;
    say(&format!("added to .gitignore: {}", missing.join(", ")));
    Ok(())
}

/// Adds what the checks leave behind to `.gitignore` on request; suggests it otherwise.
fn artefacts(folder: &Path, args: &InitArgs, checks: &ProposedChecks) -> Result<(), CommandError> {
    let missing = ignore::missing(folder, &checks.artefacts());
    if missing.is_empty() {
        return Ok(());
    }
    if args.gitignore {
        add_ignored(folder, &missing)?;
    } else {
        let them = if missing.len() == 1 { "it" } else { "them" };
        say(&format!("  .gitignore lacks {} (`init --gitignore` adds {them})", missing.join(", ")));
    }
    Ok(())
}

/// The last lines: what is left to do, and the next commands.
fn next(file: &Path, prompt: &Path, needs_task: bool, needs_check: bool) {
    if needs_task {
        say(&format!("first: describe the task in {}", prompt.display()));
    }
    if needs_check {
        say(&format!(
            "first: write the check: `program` below [[validator]] in {} (or `init --force --test \
             COMMAND`);\n       `run` refuses to start without it",
            file.display()
        ));
    }
    say("next:");
    next_commands(
        &option_of(file),
        &[
            ("doctor", "check everything, at no cost"),
            ("run", "run the loop until the work is proved done"),
            ("status", "show the current run's status"),
        ],
    );
}
