//! `trust`

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git::{accept_repository, enter_existing, find_replaced};
use ralph_orchestrator_assembly::overrides::Overrides;
use ralph_orchestrator_assembly::trust::{FileVersion, JudgedFiles, Judgement, Trust, read};
use ralph_orchestrator_assembly::user_folders;
use ralph_orchestrator_config::values_of;
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_supervisor::KillSwitch;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::trust;
use ralph_orchestrator_text::escape;

use crate::hooks::UserHooks;

#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// File to accept [default: ralph.toml, the plan of --task and your own configuration]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Accepts what decides what runs, as it is now, after showing what differs from what was accepted before.
pub(crate) fn trust(config: &ConfigFile, args: &TrustArgs) -> Result<u8, CommandError> {
    let vars = user_folders::variables();
    let judge = Trust::new(&vars, &[]);
    judge.refuse_from_below()?;
    let judged = match &args.file {
        Some(file) if accept_links(&judge, file)? && !file.is_file() => return Ok(exit::OK),
        Some(file) if judge.is_gone(file)? => {
            judge.accept_gone(file)?;
            output::result(&format!("accepted that {} is gone", file.display()));
            return Ok(exit::OK);
        }
        Some(file) => vec![judge_named(&judge, file)?],
        None => judge_all(&judge, config)?,
    };
    let (mut accepted, mut known) = (Vec::new(), Vec::new());
    for judgement in judged {
        match judgement {
            Judgement::Accepted(version) => known.push(version),
            Judgement::Acceptable(version) => accepted.push(version),
            Judgement::Unaccepted(file) => {
                trust::show(&file)?;
                accepted.push(file.now);
            }
        }
    }
    // What is as it was accepted is accepted anew: whoever edits it from now on is a person, until an agent works again.
    judge.accept(known.iter().chain(&accepted))?;
    let (is_replaced, of_git) = match &args.file {
        None if config.passed_over().is_none() => accept_folders(config, accepted.is_empty())?,
        _ => (false, Vec::new()),
    };
    if !of_git.is_empty() {
        let changed = of_git.join(", ");
        output::result(&format!(
            "accepted the workspace's repository, with changed {}",
            escape(&changed)
        ));
    }
    let of_hooks = args.file.is_none() && config.passed_over().is_none() && accept_hooks(config)?;
    match accepted.as_slice() {
        [] if is_replaced || !of_git.is_empty() || of_hooks => {}
        [] => match &args.file {
            None if config.passed_over().is_none() && judge.is_gone(&config.path())? => {
                let path = config.path();
                let (shown, word) = (path.display(), quote_word(&path));
                output::result(&format!(
                    "{shown} is gone, and its run goes on by what was last accepted; if you deleted it, \
                     `ralph-orchestrator trust {word}` accepts that"
                ));
            }
            _ => output::result("nothing to accept: it is as it was accepted"),
        },
        files => {
            for FileVersion { path, .. } in files {
                output::result(&format!("accepted {}", path.display()));
            }
        }
    }
    Ok(exit::OK)
}

/// Accepts all links on the way to a file or folder, itself included. Returns whether there was one to accept.
fn accept_links(judge: &Trust, path: &Path) -> Result<bool, CommandError> {
    let mut is_any = false;
    judge.accept_links(path, |link| {
        is_any = true;
        output::result(&format!("accepted {link}"));
    })?;
    Ok(is_any)
}

/// Accepts the workspace, where it is another folder than the one in which its run began; and git's configuration and
/// hooks of it, and of the worktree of its run. The workspace only if its files are accepted already. Returns whether it is another one, and what was changed.
fn accept_folders(
    config: &ConfigFile,
    is_known: bool,
) -> Result<(bool, Vec<String>), CommandError> {
    let context = Context::load(config, Overrides::default())?;
    // Whoever accepts what a file says need not know that the folder is another one.
    let is_replaced = is_known && trust::accept_workspace(&context)?;
    if let Some(replaced) = find_replaced(&context)?.filter(|_| !is_known) {
        output::result(&format!("not accepted yet: {}", replaced.error()));
    }
    let mut changes = accept_repository(&context)?;
    let inside = enter_existing(context)?;
    changes.extend(accept_repository(&inside)?);
    Ok((is_replaced, changes))
}

/// Accepts what the commands of `[hooks]` run as it is now. Returns whether any of it was changed since the newest run began.
fn accept_hooks(config: &ConfigFile) -> Result<bool, CommandError> {
    let context = Context::load(config, Overrides::default())?;
    let Some(hooks) = UserHooks::find(&context, &KillSwitch::default()) else {
        return Ok(false);
    };
    let Ok(layout) = context.layout() else { return Ok(false) };
    let changed = hooks.accept_scripts(&layout)?;
    for path in &changed {
        output::result(&format!("accepted {path}, which a command of [hooks] runs"));
    }
    Ok(!changed.is_empty())
}

fn judge_named(judge: &Trust, file: &Path) -> Result<Judgement, CommandError> {
    let failed = |problem: &str| {
        CommandError::user(format!("{}: {problem}", file.display()))
            .hinted("name a configuration, such as ralph.toml")
    };
    let text = read(file).ok_or_else(|| match file.exists() {
        true => failed("it cannot be read as text"),
        false => failed("there is no such file"),
    })?;
    if values_of(&text).is_none() {
        return Err(failed("it is no configuration: not TOML"));
    }
    judge.judge(file, text)
}

/// Judges the configuration that the command line names or finds, and what belongs to it.
fn judge_all(judge: &Trust, config: &ConfigFile) -> Result<Vec<Judgement>, CommandError> {
    if let Some(file) = config.passed_over() {
        return Ok(vec![judge_named(judge, file)?]);
    }
    let JudgedFiles { accepted, acceptable, unaccepted, links, .. } =
        Context::load(config, Overrides::default())?.judged;
    for link in links {
        accept_links(judge, &link.path)?;
    }
    let accepted = accepted.into_iter().map(Judgement::Accepted);
    let acceptable = acceptable.into_iter().map(Judgement::Acceptable);
    let unaccepted = unaccepted.into_iter().map(Judgement::Unaccepted);
    Ok(accepted.chain(acceptable).chain(unaccepted).collect())
}
