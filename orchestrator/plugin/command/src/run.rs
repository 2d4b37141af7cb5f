//! `plugin run`

mod frames;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_contract::{
    AgentError, Budget, CancelReason, CancelSignal, Event, EventSink, Iteration, Report,
    async_trait,
};
use ralph_orchestrator_engine::{ConfiguredAgent, Redactor, build_context};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_supervisor::KillSwitch;
use ralph_orchestrator_terminal::output_place::find_place;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::{output, trust};
use ralph_orchestrator_text::{duration, plain_line};

use self::frames::FramePrinter;
use crate::named;

#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, clap::Args)]
pub struct RunPluginArgs {
    /// The plugin's name in ralph.toml, or NAME/AGENT of one with several agents
    #[arg(value_name = "PLUGIN")]
    pub(crate) plugin: String,
    /// The prompt
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) prompt: String,
    /// Show each frame that passes: time, direction, kind and keys
    #[arg(long)]
    pub(crate) frames: bool,
    /// Work in this folder [default: a temporary one, which is deleted]
    #[arg(long = "in", value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

/// How much of a text is shown, in characters.
const SHOWN_MAX: usize = 400;

/// Runs one session of the plugin's agent, and prints what comes of it.
pub(crate) fn run_session(file: &ConfigFile, args: &RunPluginArgs) -> Result<u8, CommandError> {
    let temporary = tempfile::tempdir()?;
    let folder = match &args.folder {
        Some(folder) => {
            let place = find_place(folder)?;
            if !place.is_dir() {
                let message = format!("--in {}: expected a folder", folder.display());
                return Err(CommandError::user(message).hinted("name one that exists"));
            }
            place
        }
        None => temporary.path().join("work"),
    };
    let mut context = trust::load_to_start(file, &args.sets)?;
    select_agent(&mut context, &args.plugin)?;
    if args.folder.is_none() {
        std::fs::create_dir(&folder)?;
    }
    // The sandbox opens the folder in which the agent works.
    context.loaded.config.run.workspace.clone_from(&folder);
    let scratch = temporary.path().join("scratch");
    std::fs::create_dir(&scratch)?;
    block_on(run(&context, args, &folder, &scratch))
}

/// Makes the plugin's agent that of the configuration, with the table that `ralph.toml` has for it.
fn select_agent(context: &mut Context, wanted: &str) -> Result<(), CommandError> {
    let name = wanted.split_once('/').map_or(wanted, |(plugin, _)| plugin);
    named::table(context, name)?;
    let config = &mut context.loaded.config;
    // What is wrong with others is no matter here.
    config.plugins.retain(|other, _| other == name);
    // The only agent of a plugin has two names.
    let is_wanted = |adapter: &str| {
        adapter == wanted || adapter == name || wanted == name && is_of(adapter, name)
    };
    let agents = std::iter::once(&config.agent).chain(config.agents.values());
    let found = agents.into_iter().find(|agent| is_wanted(&agent.adapter)).cloned();
    let is_found = found.is_some();
    config.agent = found.unwrap_or_else(|| config.agent.clone());
    config.agent.escalate.clear();
    if !is_found {
        config.agent.config = serde_json::json!({});
    }
    if !is_found || wanted != name {
        wanted.clone_into(&mut config.agent.adapter);
    }
    Ok(())
}

/// Returns whether an adapter is an agent of this plugin.
fn is_of(adapter: &str, plugin: &str) -> bool {
    adapter.split_once('/').is_some_and(|(owner, _)| owner == plugin)
}

async fn run(
    context: &Context,
    args: &RunPluginArgs,
    folder: &Path,
    scratch: &Path,
) -> Result<u8, CommandError> {
    let loaded = &context.loaded;
    let plugins = Plugins::from_context(context)?;
    let redactor = Redactor::new(&loaded.config.env, &context.vars);
    let printer = Arc::new(FramePrinter::new(redactor.clone()));
    if args.frames {
        plugins.trace_frames(&printer.trace());
    }
    let sandbox = SandboxPolicy::from_context(context)?;
    let registry = registry::for_run(&plugins, sandbox.as_ref(), KillSwitch::default());
    let build = build_context(loaded, &context.vars);
    let configured = ConfiguredAgent::build(loaded, &registry, &build, None).await;
    // The session in which the agent was described is only of use if it failed.
    printer.begin(configured.is_err());
    let configured = configured?;
    let env = configured.environment(loaded, &context.vars);
    let task = Iteration {
        run: "plugin-run".to_owned(),
        number: 1,
        prompt: args.prompt.clone().into_bytes(),
        workspace: folder.to_owned(),
        env,
        budget: Budget::default(),
        scratch: scratch.to_owned(),
    };
    let sink = PrintingSink { folder: real_path(folder), redactor, prints: !args.frames };
    let began = Instant::now();
    let result = configured.agent().run(task, &sink).await;
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(print_result(result, took, &sink.redactor))
}

fn print_result(result: Result<Report, AgentError>, took: u64, redactor: &Redactor) -> u8 {
    let (report, status) = match result {
        Ok(report) => {
            output::result(&format!("done in {}", duration(took)));
            (report, exit::OK)
        }
        Err(AgentError { class, message, report }) => {
            let message = plain_line(&redactor.text(&message), SHOWN_MAX);
            output::result(&format!(
                "failed after {}: {}: {message}",
                duration(took),
                class.word()
            ));
            (*report, exit::FAILED_CHECKS)
        }
    };
    let row = |name: &str, value: &str| {
        output::result_folded(
            &format!("  {name:<12} {}", plain_line(&redactor.text(value), SHOWN_MAX)),
            15,
        );
    };
    let rows =
        [("final text", &report.final_text), ("session", &report.session), ("exit", &report.exit)];
    for (name, value) in rows {
        if let Some(value) = value {
            row(name, value);
        }
    }
    if let Some(tokens) = report.usage.tokens {
        row("tokens", &format!("{} input, {} output", tokens.input, tokens.output));
    }
    if let Some(cost) = report.usage.cost {
        row("cost", &format!("${}", cost.dollars()));
    }
    report.left_behind.iter().for_each(|name| row("left behind", name));
    status
}

/// Prints the agent's text and warnings. Nothing ends the session but its agent, or a signal to this process.
struct PrintingSink {
    folder: PathBuf,
    redactor: Redactor,
    /// Frames show the events otherwise.
    prints: bool,
}

#[async_trait]
impl CancelSignal for PrintingSink {
    async fn cancelled(&self) -> CancelReason {
        std::future::pending().await
    }
}

#[async_trait]
impl EventSink for PrintingSink {
    async fn emit(&self, event: Event) {
        match event {
            Event::Warning { message } => {
                let message = plain_line(&self.redactor.text(&message), SHOWN_MAX);
                output::info(&format!("warning: {message}"));
            }
            Event::Text { text } if self.prints => {
                text.lines().for_each(|line| {
                    output::result(&plain_line(&self.redactor.text(line), SHOWN_MAX));
                });
            }
            Event::ToolCall { name, input, .. } if self.prints => {
                let input = plain_line(&self.redactor.text(&input.to_string()), SHOWN_MAX);
                output::result(&format!("tool {}: {input}", plain_line(&name, SHOWN_MAX)));
            }
            _ => {}
        }
    }

    async fn is_write_refused(&self, path: &Path) -> bool {
        !real_path(path).starts_with(&self.folder)
    }
}
