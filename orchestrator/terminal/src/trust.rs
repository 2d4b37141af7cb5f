//! Has a person accept what decides what runs, where an agent could have written it.

mod workspace;

use std::path::Path;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git;
use ralph_orchestrator_assembly::overrides::Overrides;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_assembly::trust::links::{describe_link, refuse_link};
use ralph_orchestrator_assembly::trust::{
    Judgement, Trust, UnacceptedFile, describe_file, refusal, verify_showable,
};
use ralph_orchestrator_assembly::user_folders::{state_home, user_file};
use ralph_orchestrator_config::ConfigErrors;
use ralph_orchestrator_engine::{EngineError, follow_to_folder};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::StateError;

use crate::{output, question};

pub use workspace::{accept_workspace, ask_about_workspace};

/// Reads the configuration for a command that starts what it names: as far as a person accepts it, now or before. A
/// change that only tightens is obeyed without a question.
///
/// # Errors
/// It is wrong, or not accepted; nothing is started.
pub fn load_to_start(
    file: &ConfigFile,
    overrides: impl Into<Overrides>,
) -> Result<Context, CommandError> {
    let context = load_for_run(file, &overrides.into())?;
    accept_silently(&context)?;
    Ok(context)
}

/// The same for a run, which may still be refused for other reasons: [`accept_silently`] is its to call.
///
/// # Errors
/// As of [`load_to_start`].
pub fn load_for_run(file: &ConfigFile, overrides: &Overrides) -> Result<Context, CommandError> {
    settle(load_here(file, overrides)?, &overrides.sets)
}

/// Reads the configuration of the folder in which a person is: a file there that was passed over is asked about.
fn load_here(file: &ConfigFile, overrides: &Overrides) -> Result<Context, CommandError> {
    let overrides = overrides.clone();
    let Some(planted) = file.passed_over() else { return Context::load(file, overrides) };
    if ask_about_planted(planted, &overrides)? {
        let found = ConfigFile::find(None)?.with_task(file.task().map(str::to_owned));
        return Context::load(&found, overrides);
    }
    let context = Context::load(file, overrides)?;
    verify_place(file, planted, &context)?;
    Ok(context)
}

/// Refuses a command that changes the run of another folder than that in which a person is: the file there was passed over,
/// or, unless the command asks about that itself, the folder has taken the place of the run's.
///
/// # Errors
/// It is another one's, and no person has accepted it.
pub fn refuse_other_run(file: &ConfigFile, asks: bool) -> Result<(), CommandError> {
    if asks && file.passed_over().is_none() {
        return Ok(());
    }
    let Some(context) = Context::load_run_paths(file, Overrides::default()) else { return Ok(()) };
    if let Some(planted) = file.passed_over() {
        verify_place(file, planted, &context)?;
    }
    if asks {
        return Ok(());
    }
    match git::find_replaced(&context)? {
        Some(replaced) => Err(EngineError::from(replaced.error()).into()),
        None => Ok(()),
    }
}

/// Refuses to work elsewhere because the file of the folder in which a person is was passed over.
fn verify_place(file: &ConfigFile, planted: &Path, context: &Context) -> Result<(), CommandError> {
    let workspace = real_path(context.loaded.configured_workspace());
    if planted.parent().is_some_and(|folder| workspace.starts_with(real_path(folder))) {
        return Ok(());
    }
    let (shown, word) = (planted.display(), quote_word(planted));
    let other = match file.is_missing() {
        true => format!("-w {}", quote_word(&workspace)),
        false => format!("-c {}", quote_word(file.path())),
    };
    let message = format!(
        "{shown} appeared where an agent could write it, and is not accepted; without it this would be about {}: \
         nothing was started",
        workspace.display()
    );
    Err(CommandError::config(message).hinted(format!(
        "if it is yours, `ralph-orchestrator trust {word}` accepts it; `ralph-orchestrator {other} …` is about the other"
    )))
}

/// Records that whoever starts something with these files accepts what nobody but a person can have written.
///
/// # Errors
/// It cannot be recorded.
pub fn accept_silently(context: &Context) -> Result<(), StateError> {
    Trust::in_state(&state_home(&context.vars), false).accept_judged(&context.judged)
}

/// Reads the configuration for a command that starts what it names only to look at it, such as a program to ask for its
/// version. Nothing is recorded but what a person answers.
///
/// # Errors
/// It is wrong, or not accepted; nothing is started.
pub fn load_to_look(
    file: &ConfigFile,
    overrides: impl Into<Overrides>,
) -> Result<Context, CommandError> {
    let overrides = overrides.into();
    let context = load_here(file, &overrides)?;
    let trust = Trust::new(&context.vars, &overrides.sets);
    settle_links(&context, &trust)?;
    if context.judged.unaccepted.is_empty() {
        return Ok(context);
    }
    match find_tightened(&context) {
        Some(_) => Ok(context.settled()),
        None => ask(context, &trust),
    }
}

/// Asks on the terminal whether a file that has appeared shall be obeyed. Returns whether it is.
fn ask_about_planted(planted: &Path, overrides: &Overrides) -> Result<bool, CommandError> {
    let trust =
        Trust::new(&ralph_orchestrator_assembly::user_folders::variables(), &overrides.sets);
    match trust.judge_file(planted)? {
        Some(Judgement::Unaccepted(unaccepted)) if question::is_possible() => {
            show(&unaccepted)?;
            confirm(&trust, std::slice::from_ref(&unaccepted))
        }
        _ => Ok(false),
    }
}

/// Has a person accept what is not accepted of a configuration that was read.
///
/// # Errors
/// It is not accepted; nothing is started.
pub fn settle(context: Context, sets: &[(String, String)]) -> Result<Context, CommandError> {
    let trust = Trust::new(&context.vars, sets);
    context.judged.report_changed();
    settle_links(&context, &trust)?;
    if context.judged.unaccepted.is_empty() {
        return Ok(context);
    }
    let Some(tightened) = find_tightened(&context) else {
        return ask(context, &trust);
    };
    if !tightened.is_empty() {
        let changes = tightened.join(", ");
        output::info(&format!("note: stricter than what was accepted: {changes}"));
    }
    trust.accept(context.judged.unaccepted.iter().map(|file| &file.now))?;
    Ok(context.settled())
}

/// Returns the values by which the files are stricter than what was accepted of them, if that is all.
fn find_tightened(context: &Context) -> Option<Vec<String>> {
    if context.loaded.task().is_some() {
        return None;
    }
    Trust::find_tightened(&context.judged.unaccepted, &user_file(&context.vars))
}

/// Has a person accept on the terminal what is not accepted; without a terminal it is refused.
fn ask(context: Context, trust: &Trust) -> Result<Context, CommandError> {
    verify_kinds(&context)?;
    let unaccepted = &context.judged.unaccepted;
    if !question::is_possible() {
        return Err(refusal(unaccepted));
    }
    unaccepted.iter().try_for_each(show)?;
    match confirm(trust, unaccepted)? {
        true => Ok(context.settled()),
        false => Err(not_accepted()),
    }
}

fn not_accepted() -> CommandError {
    CommandError::config("not accepted: nothing was started")
        .hinted("put it back as it was, or accept it later by `ralph-orchestrator trust`")
}

/// Refuses what a configuration cannot name before anybody is asked to accept it. Nothing is started: what plugins have is
/// known only once they are.
fn verify_kinds(context: &Context) -> Result<(), CommandError> {
    let known = registry::unsupervised(&Plugins::none(&context.compiled_in));
    let (loaded, config) = (&context.loaded, &context.loaded.config);
    let is_of_plugin = |name: &str| {
        config.plugins.contains_key(name.split_once('/').map_or(name, |(plugin, _)| plugin))
    };
    let agents = config.agents.iter().map(|(name, agent)| (vec!["agents", name], agent));
    for (path, agent) in std::iter::once((vec!["agent"], &config.agent)).chain(agents) {
        let name = agent.adapter.as_str();
        if !known.agents.contains(name) && !is_of_plugin(name) {
            let path: Vec<_> = path.into_iter().chain(["adapter"]).map(str::to_owned).collect();
            let names = known.agents.names();
            let error = loaded.unknown_name_error(&path, name, "adapter", &names);
            return Err(ConfigErrors::from(error).into());
        }
    }
    for (index, validator) in config.validators.iter().enumerate() {
        let name = validator.kind.as_str();
        if !known.validators.contains(name) && !is_of_plugin(name) {
            let path = ["validator".to_owned(), index.to_string(), "kind".to_owned()];
            let names = known.validators.names();
            let error = loaded.unknown_name_error(&path, name, "validator", &names);
            return Err(ConfigErrors::from(error).into());
        }
    }
    Ok(())
}

/// Has a person accept the links over which the configuration was read, and refuses a workspace that one leads elsewhere.
///
/// # Errors
/// They are not accepted; nothing is started.
fn settle_links(context: &Context, trust: &Trust) -> Result<(), CommandError> {
    for stopping in &context.judged.links {
        if !question::is_possible() {
            return Err(refuse_link(stopping));
        }
        output::report(&format!("{}, which an agent could have made", describe_link(stopping)));
        trust.refuse_from_below()?;
        if !question::confirmed("accept this? [y/N] ")? {
            return Err(not_accepted());
        }
        trust.accept_link(stopping)?;
    }
    let loaded = &context.loaded;
    for folder in [loaded.configured_workspace(), &loaded.config.run.workspace] {
        follow_to_folder(&context.trust_store(), folder)?;
    }
    Ok(())
}

/// Asks on the terminal, and records the answer. Returns whether the files are accepted.
fn confirm(trust: &Trust, files: &[UnacceptedFile]) -> Result<bool, CommandError> {
    trust.refuse_from_below()?;
    let is_accepted = question::confirmed("accept this? [y/N] ")?;
    if is_accepted {
        trust.accept(files.iter().map(|file| &file.now))?;
    }
    Ok(is_accepted)
}

/// Shows what would be accepted.
///
/// # Errors
/// It cannot be shown as a whole.
pub fn show(file: &UnacceptedFile) -> Result<(), CommandError> {
    describe_file(file).iter().for_each(|line| output::report(line));
    verify_showable(file)
}
