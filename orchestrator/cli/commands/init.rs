//! `init`

use std::path::Path;

use crate::args::Init;
use crate::error::{CommandError, exit};
use crate::output;

const CONFIG: &str = include_str!("../templates/ralph.toml");
const PROMPT: &str = include_str!("../templates/PROMPT.md");
const PROGRAM: &str = "program = [\"./test.sh\"]";

pub(crate) fn init(file: &Path, args: &Init) -> Result<u8, CommandError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let prompt = folder.join("PROMPT.md");
    for path in [file, &prompt] {
        if path.exists() && !args.force {
            let message = format!("{} is there already", path.display());
            return Err(CommandError::user(message).hinted("`init --force` overwrites it"));
        }
    }
    let test = match &args.test {
        Some(command) => words(command)?,
        None => guess(folder),
    };
    let program = serde_json::to_string(&test).map_err(CommandError::internal)?;
    let program = format!("program = {}", program.replace(",\"", ", \""));
    orchestrator::state::Disk::default().write_atomically(
        file,
        CONFIG.replace(PROGRAM, &program).as_bytes(),
        0o644,
    )?;
    orchestrator::state::Disk::default().write_atomically(&prompt, PROMPT.as_bytes(), 0o644)?;
    output::result(&format!("wrote {} and {}", file.display(), prompt.display()));
    output::result(&format!("  completion is proved by `{}`", test.join(" ")));
    output::result("next: say in PROMPT.md what to do, then `ralph-orchestrator run`");
    Ok(exit::OK)
}

/// A command in words; there is no shell that could read anything else.
fn words(command: &str) -> Result<Vec<String>, CommandError> {
    if command.contains(['"', '\'', '|', '&', ';', '>', '<', '$']) {
        return Err(CommandError::user(format!("`{command}` needs a shell"))
            .hinted("put it into a script and name the script"));
    }
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err(CommandError::user("the test command has no word"));
    }
    Ok(words)
}

/// The test command that fits what lies in the folder.
fn guess(folder: &Path) -> Vec<String> {
    let known: [(&str, &[&str]); 6] = [
        ("Cargo.toml", &["cargo", "test"]),
        ("package.json", &["npm", "test"]),
        ("go.mod", &["go", "test", "./..."]),
        ("pyproject.toml", &["python3", "-m", "pytest"]),
        ("Makefile", &["make", "test"]),
        ("justfile", &["just", "test"]),
    ];
    let found = known.iter().find(|(file, _)| folder.join(file).exists());
    let command = found.map_or(&["./test.sh"] as &[&str], |(_, command)| command);
    command.iter().map(|word| (*word).to_owned()).collect()
}
