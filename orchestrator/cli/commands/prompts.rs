//! `prompts`

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_config::{Prompts, Role};
use ralph_orchestrator_engine::{FoundPrompt, RolePromptError, built_in_prompt, find_role_prompt};
use ralph_orchestrator_terminal::new_file::create_new;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum PromptsCommand {
    /// Print which file is the prompt of a role
    Which {
        /// The role, or the name that its prompt has in `prompts.names`
        role: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        sets: SetArgs,
    },
    /// Write the built-in prompt of a role to the first path of `prompts.paths`, to be edited
    Eject {
        /// The role, or the name that its prompt has in `prompts.names`
        role: String,
        #[command(flatten)]
        sets: SetArgs,
    },
}

pub(crate) fn prompts(file: &ConfigFile, command: PromptsCommand) -> Result<u8, CommandError> {
    match command {
        PromptsCommand::Which { role, json, sets } => {
            let context = Context::with(file, &sets)?;
            let prompts = configured(&context)?;
            let role = find_role(prompts, &role)?;
            let found = find_role_prompt(prompts, role, &context.trust_store());
            which(prompts, role, found, json)?;
        }
        PromptsCommand::Eject { role, sets } => {
            let context = Context::with(file, &sets)?;
            let prompts = configured(&context)?;
            eject(prompts, find_role(prompts, &role)?)?;
        }
    }
    Ok(exit::OK)
}

fn configured(context: &Context) -> Result<&Prompts, CommandError> {
    context.loaded.config.prompts.as_ref().ok_or_else(|| {
        let file = context.file.display();
        CommandError::config(format!(
            "{file} has no `[prompts]`, so roles have no prompts of their own"
        ))
        .hinted("add a table [prompts], which may be empty; without it `run.prompt` is the prompt")
    })
}

fn find_role(prompts: &Prompts, name: &str) -> Result<Role, CommandError> {
    let found = Role::ALL.into_iter().find(|role| role.word() == name);
    let named = || Role::ALL.into_iter().find(|role| prompts.names.of(*role) == name);
    found.or_else(named).ok_or_else(|| {
        let roles = Role::ALL.map(Role::word).join(", ");
        CommandError::user(format!("there is no role called {name:?}; roles are: {roles}"))
    })
}

fn which(
    prompts: &Prompts,
    role: Role,
    found: Result<FoundPrompt, RolePromptError>,
    json: bool,
) -> Result<(), CommandError> {
    let found = found.map_err(|error| CommandError::config(error.to_string()))?;
    if json {
        output::json(&serde_json::json!({
            "role": role.word(),
            "name": prompts.names.of(role),
            "path": found.path,
            "built_in": found.path.is_none(),
            "digest": found.prompt.digest,
            "searched": prompts.candidates(role),
        }));
    } else {
        output::result(&found.origin());
    }
    Ok(())
}

fn eject(prompts: &Prompts, role: Role) -> Result<(), CommandError> {
    let Some(path) = prompts.candidates(role).into_iter().next() else {
        let message = "`prompts.paths` names no file, only \"built-in\"";
        return Err(CommandError::config(message).hinted("add a path with `{name}` before it"));
    };
    if !create_new(&path, built_in_prompt(prompts, role))? {
        let message = format!("{} already exists; nothing was written", path.display());
        return Err(CommandError::user(message));
    }
    output::result(&format!("{}: written", path.display()));
    Ok(())
}
