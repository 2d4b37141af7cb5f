//! Asks people on the terminal: the agent's open question, and whether something shall be done.

use std::io::{self, BufRead as _, IsTerminal as _};

use ralph_orchestrator_text::escape;

use crate::output;

/// Whether there is somebody to ask.
pub fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks whether something shall be done. Without a terminal it is not confirmed.
///
/// # Errors
/// The terminal cannot be read.
pub fn confirmed(question: &str) -> io::Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    output::question(question);
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Asks the question. `None` without a terminal or an answer.
///
/// # Errors
/// The terminal cannot be read.
pub fn ask_on_terminal(question: &str) -> io::Result<Option<String>> {
    if !is_possible() {
        return Ok(None);
    }
    output::info(&format!("the agent asks: {}", escape(question)));
    output::question("answer: ");
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        // The end of the input leaves the cursor where it is.
        output::info("");
    }
    Ok(Some(answer.trim().to_owned()).filter(|answer| !answer.is_empty()))
}
