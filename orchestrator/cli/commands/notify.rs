//! `notify`

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::orphans::RUN_ID;
use ralph_orchestrator_engine::new_run_id;
use ralph_orchestrator_notices::{Notice, Receiver, Transport as _};
use ralph_orchestrator_supervisor::KillSwitch;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::trust;

use crate::notices;
use crate::notices::transport::make_transport;

#[derive(Debug, clap::Args)]
pub(crate) struct NotifyArgs {
    /// Only these receivers
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

/// Sends each receiver a notice that says it is a test. Succeeds if all of them have answered.
pub(crate) fn notify(file: &ConfigFile, args: &NotifyArgs) -> Result<u8, CommandError> {
    let context = trust::load_to_start(file, args.sets.sets.clone())?;
    let mut receivers = notices::resolve(&context);
    if receivers.is_empty() {
        let message = format!("{} has no [[notify]]", context.file.display());
        return Err(CommandError::config(message).hinted(
            "add one, such as `kind = \"ntfy\"` with `url = \"https://ntfy.sh/a-name-nobody-guesses\"`",
        ));
    }
    for name in &args.names {
        if !receivers.iter().any(|(known, _)| known == name) {
            let known: Vec<&str> = receivers.iter().map(|(name, _)| name.as_str()).collect();
            let message = format!("there is no receiver called {name:?}");
            return Err(
                CommandError::user(message).hinted(format!("known are: {}", known.join(", ")))
            );
        }
    }
    receivers.retain(|(name, _)| args.names.is_empty() || args.names.contains(name));
    let workspace = context.loaded.config.run.workspace.display().to_string();
    let notice = Notice::test(&new_run_id(), &workspace);
    accept_scripts(&context, &receivers);
    let transport = make_transport(&context, &KillSwitch::default());
    let mut all_answered = true;
    for (name, resolved) in receivers {
        let sent = match resolved {
            Ok(receiver) => {
                let sent = block_on(async { Ok(transport.send(&receiver, &notice).await) })?;
                sent.map(|delivery| delivery.answer).map_err(|error| error.message)
            }
            Err(problem) => Err(problem),
        };
        all_answered &= sent.is_ok();
        output::result(&match sent {
            Ok(answer) => format!("ok    {name}: {answer}"),
            Err(problem) => format!("FAIL  {name}: {problem}"),
        });
    }
    Ok(if all_answered { exit::OK } else { exit::FAILED_CHECKS })
}

/// Takes the files that commands run as they are for the user's own, unless an agent asks for that.
fn accept_scripts(context: &Context, receivers: &[(String, Result<Receiver, String>)]) {
    if context.vars.contains_key(RUN_ID) {
        return;
    }
    let Ok(layout) = context.layout() else { return };
    let receivers: Vec<Receiver> =
        receivers.iter().filter_map(|(_, receiver)| receiver.clone().ok()).collect();
    match ralph_orchestrator_notices::accept_scripts(&layout, &receivers) {
        Ok(changed) => changed.iter().for_each(|path| {
            output::info(&format!(
                "note: {path} was changed since the run began; it is run now, and accepted as it is"
            ));
        }),
        Err(error) => {
            output::info(&format!("warning: what their commands run cannot be recorded: {error}"));
        }
    }
}
