//! `init`

mod check;
mod protect;
mod systemd;

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use crate::args::Init;
use crate::error::{CommandError, exit};
use crate::output;
use check::Check;

const CONFIG: &str = include_str!("../templates/ralph.toml");
const PROMPT: &str = include_str!("../templates/PROMPT.md");
const PROGRAM: &str = "program = [\"./test.sh\"]\nprotect = [\"test.sh\"]\n";
/// What tells an agent how to claim, as the detectors of the configuration know it.
const CLAIMS: [&str; 2] = ["<promise>", "TASK_COMPLETE"];

pub(crate) fn init(file: &Path, args: &Init) -> Result<u8, CommandError> {
    if args.systemd {
        return systemd::write(file, args.force);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let prompt = file.with_file_name("PROMPT.md");
    let keeps_config = exists(file)? && !args.force;
    let keeps_prompt = exists(&prompt)?;
    let hint = "`init --force` overwrites ralph.toml; a prompt is never overwritten";
    if keeps_config && args.test.is_some() {
        let message = format!("{} already exists: --test would have no effect", file.display());
        return Err(CommandError::user(message).hinted(hint));
    }
    if keeps_config && keeps_prompt {
        let message = format!("{} and {} already exist", file.display(), prompt.display());
        return Err(CommandError::user(message).hinted(hint));
    }
    if keeps_config {
        output::result(&format!("kept {} as it is", file.display()));
    } else {
        let check = Check::find(folder, args.test.as_deref())?;
        write_config(file, &check, args.force)?;
        output::result(&format!("wrote {}", file.display()));
        check.lines(file).iter().for_each(|line| output::result(line));
    }
    if keeps_prompt || !create(&prompt, PROMPT)? {
        output::result(&format!("kept {} as it is{}", prompt.display(), missing_claim(&prompt)));
        output::result("next: `ralph-orchestrator doctor`, then `ralph-orchestrator run`");
    } else {
        output::result(&format!("wrote {}", prompt.display()));
        output::result("next: say in PROMPT.md what to do, then `ralph-orchestrator run`");
    }
    Ok(exit::OK)
}

/// Whether there is anything of this name, such as a link that leads nowhere.
fn exists(path: &Path) -> Result<bool, CommandError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CommandError::user(format!("{}: {error}", path.display()))),
    }
}

fn write_config(file: &Path, check: &Check, force: bool) -> Result<(), CommandError> {
    let text = CONFIG.replace(PROGRAM, &check.toml()?);
    if force {
        let disk = orchestrator::state::Disk::default();
        return Ok(disk.write_atomically(file, text.as_bytes(), 0o644)?);
    }
    if create(file, &text)? {
        return Ok(());
    }
    Err(CommandError::user(format!("{} has just been made by another program", file.display())))
}

/// Writes a file that is not there. Whether it was not.
fn create(path: &Path, text: &str) -> Result<bool, CommandError> {
    let failed = |error| CommandError::user(format!("cannot write {}: {error}", path.display()));
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(true)
}

/// What a kept prompt does not say and an agent has to know.
fn missing_claim(prompt: &Path) -> &'static str {
    let Ok(text) = fs::read_to_string(prompt) else { return "" };
    if CLAIMS.iter().any(|claim| text.contains(claim)) {
        return "";
    }
    "\n  it does not say how to claim completion; add a line such as: when all is done, end\n  \
     your last message with <promise>COMPLETE: what was done</promise>"
}
