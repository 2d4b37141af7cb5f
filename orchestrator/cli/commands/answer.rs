//! `answer`

use orchestrator::machine::Record;
use orchestrator::state::Store;

use crate::args::Answer;
use crate::context::Context;
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::orphans::end_orphans;
use crate::output;

pub(crate) fn answer(file: &ConfigFile, args: Answer) -> Result<u8, CommandError> {
    let layout = Context::with(file, &args.sets)?.layout()?;
    if args.text.trim().is_empty() {
        return Err(CommandError::user("an answer has at least one word"));
    }
    if !layout.root().exists() {
        return Err(CommandError::user("there is no run in this workspace to answer"));
    }
    let mut store = Store::open(layout)?;
    let found = store.resume()?;
    // Otherwise nothing would tell the next start of them.
    for note in store.end_orphans(found.as_ref(), &end_orphans).notes {
        output::say(&note);
    }
    let Some(found) = found else {
        return Err(CommandError::user("there is no run in this workspace to answer"));
    };
    if found.state.completion().is_some() {
        return Err(CommandError::user(format!("run {} is complete", found.run)));
    }
    store.append(&Record::Answered { text: args.text })?;
    output::result(
        "the answer heads the agent's next prompt; `ralph-orchestrator run` goes on with the run",
    );
    Ok(exit::OK)
}
