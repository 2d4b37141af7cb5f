//! `completions`
//!
//! The scripts ask this program for candidates, so they know keys and names, and never grow old. Those
//! that `clap_complete` writes ahead of time fall silent in bash after a command, because of the hyphen
//! in this program's name.

use clap_complete::env::Shells;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::values;
use ralph_orchestrator_terminal::values::Shell;

use crate::complete::VARIABLE;

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
    /// Complete this alias of the program, too; may be repeated
    #[arg(long = "alias", value_name = "NAME", value_parser = values::alias)]
    pub(crate) aliases: Vec<String>,
}

const PROGRAM: &str = "ralph-orchestrator";
/// The functions of the scripts, as `clap_complete` names them.
const IN_BASH: &str = "_clap_complete_ralph_orchestrator";
const IN_ZSH: &str = "_clap_dynamic_completer_ralph_orchestrator";

pub(crate) fn completions(args: &CompletionsArgs) -> Result<u8, CommandError> {
    let name = match args.shell {
        Shell::Bash => "bash",
        Shell::Elvish => "elvish",
        Shell::Fish => "fish",
        Shell::Powershell => "powershell",
        Shell::Zsh => "zsh",
    };
    let shells = Shells::builtins();
    let shell = shells.completer(name).ok_or_else(|| CommandError::internal("unknown shell"))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    if args.shell == Shell::Zsh {
        // As a file in `fpath` the script is the body of a function, and this its first call.
        let first = format!("[[ $funcstack[1] == _{PROGRAM} ]] && {IN_ZSH} \"$@\"\n");
        script.extend(first.into_bytes());
    }
    for alias in &args.aliases {
        let line = of_alias(args.shell, alias).ok_or_else(|| {
            CommandError::user(format!("--alias is for bash, fish and zsh, not for {name}"))
        })?;
        script.extend(line.into_bytes());
    }
    // An empty status at the end would be taken for a failure of the script.
    if args.shell == Shell::Zsh {
        script.extend(b"true\n");
    }
    output::raw(&script);
    Ok(exit::OK)
}

fn of_alias(shell: Shell, alias: &str) -> Option<String> {
    match shell {
        Shell::Bash => Some(format!("complete -o nospace -o bashdefault -F {IN_BASH} {alias}\n")),
        Shell::Fish => Some(format!("complete --command {alias} --wraps {PROGRAM}\n")),
        Shell::Zsh => Some(format!("compdef {IN_ZSH} {alias}\n")),
        Shell::Elvish | Shell::Powershell => None,
    }
}
