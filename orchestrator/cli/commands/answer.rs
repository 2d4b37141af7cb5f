//! `answer`

use ralph_orchestrator_core::machine::Control;

use crate::args::SetArgs;
use crate::context::{self, Context};
use crate::control::Sender;
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
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
    if args.text.trim().is_empty() {
        return Err(CommandError::user("the answer is empty"));
    }
    let delivery = Sender::new(&context, file, Control::Answer { text: args.text })?.deliver()?;
    let Some((recorded, is_active)) = delivery.accepted()? else { return Ok(exit::OK) };
    let resumes = match is_active {
        true => String::new(),
        false => format!(": `{} run` resumes", context::invocation(file)),
    };
    let question = recorded.state.answers.last().and_then(|answer| answer.question.as_deref());
    output::result(&match question {
        Some(question) => format!(
            "answered the question \"{}\"; both go to the top of the next prompt{resumes}",
            one_line(question, 200)
        ),
        None => format!(
            "no question is open: this is guidance, and goes to the top of the next prompt{resumes}"
        ),
    });
    Ok(exit::OK)
}
