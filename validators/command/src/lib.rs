//! The `command` validator: a claim is accepted if a command passes.
//! Knows neither the engine nor another validator.
//!
//! `reserved.rs` says what must not appear beside a command, `python.rs` and `make.rs` for these programs, `WRAPPERS` in
//! `invocation.rs` which programs run others, `shell_text.rs` what is understood of shell text.
//!
//! Keys of `[[validator]]` with `kind = "command"`:
//!
//! | key | meaning |
//! |---|---|
//! | `program` | `["argv0", …]`, required. A bare name is looked for in `PATH` once, when the run starts; a path with a slash is relative to the folder of the configuration file. It has to exist when the run starts, unless it lies in the workspace, where the agent may make it |
//! | `expect_exit` | the exit status, 0 by default |
//! | `must_match` | a regular expression, or a list: each has to match a line of the output; where it has groups `ran` and `skipped`, the first number must be greater |
//! | `must_not_match` | a regular expression, or a list: none may match a line of the output |
//! | `protect` | globs, relative to the workspace, of what has to be as it was when the run began. A program in the workspace, or the script that an interpreter is given, that no required validator protects is warned of. Beyond these, what would be run instead of the program's own is reserved: it must not appear (`reserved.rs`) |
//! | `passes_required` | how many times in a row it has to pass, 1 by default |
//! | `read_only` | whether any change that it makes to the workspace is its error, false by default |
//! | `tests_may_fall` | whether fewer tests may run than when the run began, false by default |
//! | `count_tests` | whether the tests that ran are counted, by what it prints, true by default. They never are where `expect_exit` is not 0: there they are to fail |
//! | `cwd` | where it runs, relative to the workspace and inside it; the workspace by default |
//!
//! Expressions are matched against each line of standard output and standard error by itself, while
//! it passes, so that nothing is missed however long the output is; no match reaches across lines,
//! and `^` and `$` are a line's ends. Terminal colours are left out of what `must_match` sees and
//! hide nothing from `must_not_match`. A line is seen up to 1 MiB; what is beyond can neither match
//! nor be proved not to, so with `must_not_match` it is a rejection.

mod config;
mod display;
mod execution;
mod files;
mod invocation;
mod make;
mod paths;
mod patterns;
mod program;
mod program_name;
mod python;
mod reserved;
mod script;
mod setup;
mod shell;
mod shell_line;
mod shell_option;
mod validator;

/// The lines of the recipes of a Makefile, as far as that is plain.
pub use make::recipes as makefile_recipes;
/// The index of the script in a command that gives one to an interpreter.
pub use script::find as find_script;
/// Whether a word is a command of the shell itself.
pub use shell::is_shell_command;
/// The index of the line in a command that gives one to a shell.
pub use shell_option::find as find_shell_line;

/// The keys of `[[validator]]`.
pub use config::Config as Keys;
/// A command as one would type it.
use ralph_orchestrator_contract::{BuildContext, BuildError, EvidenceValidator};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;

/// The program of a validator that is still to be written. It says so, and its exit status tells that
/// nothing could be checked; a run with it is refused.
pub const PLACEHOLDER: [&str; 3] = [
    "sh",
    "-c",
    "echo 'write your check here: `program` below [[validator]] in ralph.toml' >&2; exit 126",
];

/// Builds the validator from its table, without the keys that all validators share.
///
/// # Errors
/// The first mistake in `config`, with its key.
pub fn build(
    config: Value,
    context: &BuildContext,
    supervisor: &Supervisor,
) -> Result<Box<dyn EvidenceValidator>, BuildError> {
    let config = config::Config::parse(config)?;
    Ok(Box::new(validator::CommandValidator::new(config, context, supervisor)?))
}
