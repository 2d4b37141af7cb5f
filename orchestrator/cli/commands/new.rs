//! `new`

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::tasks::{ERRORS, FOLDER, PLAN, PREFIX, PROGRESS, number};
use ralph_orchestrator_assembly::trust::Trust;
use ralph_orchestrator_assembly::{config_sources, context, tasks, user_folders};
use ralph_orchestrator_safe_fs::{
    DirLister, open_folder, open_or_create_subfolder, open_subfolder, real_path,
};
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::{output, values};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// What to do
    #[arg(value_name = "TASK")]
    pub(crate) text: String,
    /// The command that proves the work done, such as "cargo test": exit status 0 accepts
    #[arg(long, value_name = "COMMAND")]
    pub(crate) test_command: Option<String>,
    /// Most iterations of the task, or none [default: 15, unless ralph.toml says another number]
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    pub(crate) max_iterations: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

/// Names of which the highest number is found.
const MOST_NAMES: usize = 1_000_000;
/// What `progress.md` begins with.
const PROGRESS_HEAD: &str = "# Progress\n";
/// The plan until all of it is written.
const TEMPORARY: &str = ".plan.md.tmp";

pub(crate) fn new(file: &ConfigFile, args: &NewArgs) -> Result<u8, CommandError> {
    if args.text.trim().is_empty() {
        return Err(CommandError::user("the task is empty"));
    }
    if args.test_command.as_ref().is_some_and(|command| command.trim().is_empty()) {
        return Err(CommandError::user("--test-command is empty"));
    }
    if file.task().is_some() {
        return Err(CommandError::user("a new task gets its own number; leave out --task"));
    }
    let workspace = real_path(&config_sources::folder_of_tasks(file, &args.sets.sets)?);
    let id = create(&workspace, args)?;
    let plan = tasks::find(&workspace, &id)?.plan;
    Trust::new(&user_folders::variables(), &args.sets.sets)
        .accept_own(plan.path(), plan.given_toml())?;
    let folder = format!("{FOLDER}/{id}");
    if args.json {
        output::json(&json!({
            "task": id,
            "folder": workspace.join(&folder),
            "plan": workspace.join(&folder).join(PLAN),
            "test_command": args.test_command,
        }));
        return Ok(exit::OK);
    }
    output::result(&format!("wrote {folder}: {PLAN}, {PROGRESS}, {ERRORS}"));
    if args.test_command.is_none() && !has_own_check(file, args) {
        output::result(&format!(
            "first: write the command that proves the work done, after `test_command:` in {folder}/{PLAN};\n       \
             `go` refuses to start without one, unless ralph.toml has a [[validator]] or `trust_agent`"
        ));
    }
    output::result("next:");
    let program = context::invocation(file);
    for (command, what) in [
        (format!("{program} go {id}"), "work on it until it is proved done"),
        (format!("{program} status --task {id}"), "show its current status"),
    ] {
        output::result(&format!("  {command:<42}  # {what}"));
    }
    Ok(exit::OK)
}

/// Whether the configuration has what decides without a command of the task.
fn has_own_check(file: &ConfigFile, args: &NewArgs) -> bool {
    Context::with(file, &args.sets).is_ok_and(|context| {
        let config = &context.loaded.config;
        !config.validators.is_empty() || config.completion.trust_agent
    })
}

/// Makes the folder of the next task with its files. A task begins to be one with its plan, which is written last.
fn create(workspace: &Path, args: &NewArgs) -> Result<String, CommandError> {
    let failed = |error: Errno| {
        let message = format!("cannot make a task in {}/{FOLDER}: {error}", workspace.display());
        CommandError::user(message).hinted("it has to be a folder, and no link to one")
    };
    let root = open_folder(workspace).map_err(failed)?;
    open_or_create_subfolder(&root, FOLDER.as_bytes()).map_err(failed)?;
    let tasks = open_subfolder(root.as_fd(), FOLDER.as_bytes()).map_err(failed)?;
    let id = take_number(&tasks).map_err(failed)?;
    let folder = open_subfolder(tasks.as_fd(), id.as_bytes()).map_err(failed)?;
    let write = |name: &str, text: &str| {
        write_new(&folder, name, text).map_err(|error| {
            let path = workspace.join(FOLDER).join(&id).join(name);
            CommandError::user(format!("cannot write {}: {error}", path.display()))
        })
    };
    write(PROGRESS, PROGRESS_HEAD)?;
    write(ERRORS, "")?;
    write(TEMPORARY, &plan(&id, args))?;
    rustix::fs::renameat(&folder, TEMPORARY, &folder, PLAN).map_err(failed)?;
    for made in [&folder, &tasks, &root] {
        rustix::fs::fsync(made).map_err(failed)?;
    }
    Ok(id)
}

/// Makes the folder with the number after the highest. Of several programs at once each gets another one.
fn take_number(tasks: &OwnedFd) -> Result<String, Errno> {
    let (names, _) = DirLister::default().list(tasks.as_fd(), MOST_NAMES)?;
    let highest = names.iter().filter_map(|name| number(&name.bytes)).max().unwrap_or(0);
    let mut next = highest.checked_add(1).ok_or(Errno::OVERFLOW)?;
    loop {
        let id = format!("{PREFIX}{next}");
        match rustix::fs::mkdirat(tasks, id.as_str(), Mode::from(0o777)) {
            Ok(()) => return Ok(id),
            Err(Errno::EXIST) => next = next.checked_add(1).ok_or(Errno::OVERFLOW)?,
            Err(error) => return Err(error),
        }
    }
}

/// Writes a file that is not there.
fn write_new(folder: &OwnedFd, name: &str, text: &str) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, name, flags, Mode::from(0o666))?);
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A plan that can be worked on at once: its first criterion is the task itself.
fn plan(id: &str, args: &NewArgs) -> String {
    let task = args.text.trim();
    let heading = task.lines().next().unwrap_or_default();
    let test = match &args.test_command {
        Some(command) => format!("test_command: {}\n", quoted(command.trim())),
        None => "# The command that proves the work done, such as: cargo test\ntest_command:\n"
            .to_owned(),
    };
    let max = args.max_iterations.as_ref().map_or_else(
        || "max_iterations: # 15, unless ralph.toml says another number".to_owned(),
        |count| format!("max_iterations: {count}"),
    );
    let body = if task.contains('\n') { format!("{task}\n\n") } else { String::new() };
    let tested = match &args.test_command {
        Some(command) if !command.contains(['`', '\n']) => format!("`{}`", command.trim()),
        _ => "`test_command`".to_owned(),
    };
    format!(
        "---\ntask: {}\n{test}{max}\n---\n\n# {heading}\n\n{body}## Criteria\n\n\
         <!-- One line for each thing that has to hold when the task is complete. -->\n\n\
         - [ ] {heading}\n- [ ] {tested} passes\n\n## Memory\n\n\
         - `{FOLDER}/{id}/{PROGRESS}`: what was done\n- `{FOLDER}/{id}/{ERRORS}`: what failed\n",
        quoted(task)
    )
}

/// JSON's form of a text is one that YAML has, too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
