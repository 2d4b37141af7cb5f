//! `answer`

use ralph_orchestrator_core::machine::Record;
use ralph_orchestrator_core::store::Store;

use super::run_selection;
use crate::args::SetArgs;
use crate::context::{self, Context};
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::orphans::end_orphans;
use crate::output;
use crate::render::text::one_line;

#[derive(Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    /// The text; it goes to the top of the next prompt, after the question if one is open
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn answer(file: &ConfigFile, args: AnswerArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let layout = context.layout()?;
    if args.text.trim().is_empty() {
        return Err(CommandError::user("the answer is empty"));
    }
    if !layout.root().exists() {
        return Err(CommandError::user(run_selection::no_run(&context)));
    }
    let mut store = Store::open(layout)?;
    let found = store.resume()?;
    // Otherwise nothing would tell the next start of them.
    for note in store.end_orphans(found.as_ref(), &end_orphans).notes {
        output::info(&note);
    }
    let Some(found) = found else {
        return Err(CommandError::user(run_selection::no_run(&context)));
    };
    let program = context::invocation(file);
    if found.state.completion().is_some() {
        return Err(CommandError::user(format!("run {} is complete", found.run))
            .hinted(format!("`{program} run --restart` begins a new run")));
    }
    store.append(&Record::Answered { text: args.text })?;
    output::result(&match found.state.question() {
        Some(question) => format!(
            "answered the question \"{}\"; both go to the top of the next prompt: `{program} run` \
             resumes",
            one_line(question, 200)
        ),
        None => format!(
            "no question is open: this is guidance, and goes to the top of the next prompt: `{program} \
             run` resumes"
        ),
    });
    Ok(exit::OK)
}
