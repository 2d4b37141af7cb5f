//! `stop`

use std::fs::File;
use std::io::ErrorKind;
use std::time::Duration;

use ralph_orchestrator_assembly::context;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::control::{COMMAND_LINE, own_origin};
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::run_selection::layouts;
use ralph_orchestrator_store::{
    Holder, Layout, Owner, StateError, read_current_run, withdraw_control,
};
use ralph_orchestrator_story::next_step;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use rustix::process::test_kill_process;

use crate::stop_request::{holder_of, other_work, request};

#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// Return at once instead of waiting until the run has ended
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

const POLL: Duration = Duration::from_millis(50);

const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// How long a process is waited for that holds nothing any more: nobody may be there to reap it.
const LONGEST_END: Duration = Duration::from_secs(2);

pub(crate) fn stop(file: &ConfigFile, args: &StopArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let own = context.layout()?;
    if let Some(holder) = holder_of(&own).filter(|holder| !holder.work.is_run()) {
        output::result(&other_work(&holder));
        return Ok(exit::OK);
    }
    let (layout, holder, program) = match holder_of(&own) {
        Some(holder) => (own, holder, Some(context::invocation(file))),
        None => match active_run(&context)? {
            Some((layout, holder, None)) => (layout, holder, None),
            Some((_, holder, Some(file))) => {
                let program = context::invocation(&file);
                output::result(&format!(
                    "no run is active for this configuration; another one's is ({holder}): \
                     `{program} stop` stops it"
                ));
                return Ok(exit::OK);
            }
            None => {
                check_readable(&own)?;
                output::result("no run is active");
                return Ok(exit::OK);
            }
        },
    };
    let (pid, message) = request(&layout, &holder, own_origin(COMMAND_LINE))?;
    if args.no_wait {
        output::result(&format!("stop requested: {holder}"));
        return Ok(exit::OK);
    }
    let deadline = std::time::Instant::now() + LONGEST_WAIT;
    while holder_of(&layout).is_some_and(|now| now == holder) {
        if std::time::Instant::now() >= deadline {
            let seconds = LONGEST_WAIT.as_secs();
            return Err(CommandError::user(format!("{holder} did not end within {seconds} s")));
        }
        std::thread::sleep(POLL);
    }
    // It gives its locks back just before it ends.
    let deadline = std::time::Instant::now() + LONGEST_END;
    while test_kill_process(pid).is_ok() && std::time::Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
    // Where the run ended before it could record it.
    if let Some(id) = message {
        withdraw_control(&layout, &id)?;
    }
    output::result(&match program {
        Some(program) => {
            format!("stopped ({holder}); {}", what_resumes(&context, &layout, &program))
        }
        None => format!(
            "stopped ({holder}), a run that was begun without a configuration file: the command that \
             began it resumes it where there is none"
        ),
    });
    Ok(exit::OK)
}

/// Fails where a run may be active that cannot be seen.
fn check_readable(layout: &Layout) -> Result<(), StateError> {
    let lock = layout.lock();
    match File::open(&lock) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(StateError::io("open", &lock)(error))
        }
        _ => Ok(()),
    }
}

/// Returns what resumes the run that was stopped, unless it is complete.
fn what_resumes(context: &Context, layout: &Layout, program: &str) -> String {
    let found = read_current_run(layout, |_| {}).ok().flatten();
    let plain = Some(&context.loaded).filter(|loaded| loaded.config.backlog.is_none());
    let state = found.map(|found| found.state).unwrap_or_default();
    if plain.is_some() && state.completion().is_some() {
        return "the run is complete".to_owned();
    }
    next_step::resumes(&state, program, plain)
}

/// Returns the active run of the workspace, whatever it was begun with, and its configuration file and task. One
/// without either has no command of its own that stops it.
fn active_run(
    context: &Context,
) -> Result<Option<(Layout, Holder, Option<ConfigFile>)>, CommandError> {
    let held = |layout: Layout| {
        let holder = holder_of(&layout).filter(|holder| holder.work.is_run())?;
        Some((layout, holder))
    };
    let Some((layout, holder)) = layouts(context)?.into_iter().find_map(held) else {
        return Ok(None);
    };
    let owner = Owner::read(&layout).ok().flatten();
    let file = owner.and_then(|owner| {
        let file = owner.configuration()?;
        Some(ConfigFile::named(file).with_task(owner.task().map(str::to_owned)))
    });
    Ok(Some((layout, holder, file)))
}
