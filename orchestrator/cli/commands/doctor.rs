//! `doctor`

mod handoff;
mod hooks;
mod login;
mod rate_windows;
mod receivers;
mod rehearsal;
mod start;
mod surroundings;

use std::collections::BTreeMap;

use ralph_orchestrator_assembly::backlog_view::CheckedBacklog;
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::check_place::FoundPlace;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::{ConfigFile, ConfigPlace, describe_missing_file};
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_assembly::transient_checkout::TransientCheckout;
use ralph_orchestrator_assembly::{backlog_view, git};
use ralph_orchestrator_assembly::{placeholder, sandbox, tasks};
use ralph_orchestrator_config::{
    BaselineMode, CommitMode, CompletionTrigger, SandboxMode, ValidatorConfig,
};
use ralph_orchestrator_contract::{BuildContext, ErrorClass, Verdict};
use ralph_orchestrator_engine::registry::Registry;
use ralph_orchestrator_engine::{
    BaselineReport, CheckSite, CompletionPolicy, ConfiguredAgent, Redactor, SetupPlan, SetupReport,
    build_workspace_setup,
};
use ralph_orchestrator_machine::ValidatorVerdict;
use ralph_orchestrator_store::{Layout, Lock, read_current_run};
use ralph_orchestrator_story::words::{EVIDENCE_ONLY, capability_names};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::trust;
use ralph_orchestrator_terminal::validation_setup::{CheckProcesses, ValidationSetup};
use ralph_orchestrator_text::{one_line, shorten_home};
use ralph_validator_command::PLACEHOLDER;
use serde_json::Value;

use crate::commands::rollback;
use crate::commands::run;
use crate::commands::run::look::Outlook;
use crate::dry_run::setup_text;
use crate::notices;

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Also try what agents do to the checks, as `rehearse` does
    #[arg(long)]
    pub(crate) rehearse: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

/// What the run of an item knows and this command does not.
const OUTSIDE_OF_ITEMS: &str =
    " (no item is in progress here; the run of each item checks it again with its item)";
/// Where details begin.
const INDENT: usize = 21;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Ok,
    /// A run would begin, and would say the same.
    Warning,
    /// Not checked, for this reason.
    Skipped,
    /// A run would not begin: it would end with this exit status.
    Failed(u8),
}

struct Finding {
    what: &'static str,
    severity: Severity,
    detail: String,
}

impl Finding {
    const fn warning(what: &'static str, detail: String) -> Self {
        Self { what, severity: Severity::Warning, detail }
    }

    const fn ok(what: &'static str, detail: String) -> Self {
        Self { what, severity: Severity::Ok, detail }
    }

    fn skipped(what: &'static str, why: &str) -> Self {
        Self {
            what,
            severity: Severity::Skipped,
            detail: format!("the checks were not run: {why}"),
        }
    }

    /// Returns the exit status of a run that would not begin because of this.
    const fn failure(&self) -> Option<u8> {
        match self.severity {
            Severity::Failed(code) => Some(code),
            Severity::Ok | Severity::Warning | Severity::Skipped => None,
        }
    }

    fn new(what: &'static str, result: Result<String, String>, code: u8) -> Self {
        match result {
            Ok(detail) => Self { what, severity: Severity::Ok, detail },
            Err(detail) => Self { what, severity: Severity::Failed(code), detail },
        }
    }
}

pub(crate) fn doctor(file: &ConfigFile, args: &DoctorArgs) -> Result<u8, CommandError> {
    let overrides = args.sets.sets.clone();
    let (context, findings) = match trust::load_to_look(file, overrides.clone()) {
        Ok(context) => match block_on(run_checks(&context, file, args.rehearse))? {
            Checked::All(findings) => (context, findings),
            Checked::Stopped(status) => return Ok(status),
        },
        Err(error) => {
            let places = Context::load_run_paths(file, overrides);
            let Some(context) = places else { return Err(error) };
            match block_on(async { Ok(run::find_completed_at(&context).await) })? {
                Some((found, _)) => (context, start::completed_despite(&found.run, &error)),
                None => return Err(error),
            }
        }
    };
    let code = exit_status(&findings);
    if args.json {
        let rows: Vec<_> = findings
            .iter()
            .map(|finding| {
                serde_json::json!({
                    "check": finding.what,
                    "ok": !matches!(finding.severity, Severity::Failed(_)),
                    "warning": finding.severity == Severity::Warning,
                    "skipped": finding.severity == Severity::Skipped,
                    "detail": finding.detail,
                })
            })
            .collect();
        output::json(&serde_json::json!({"ok": code == exit::OK, "checks": rows}));
    } else {
        for Finding { what, severity, detail } in &findings {
            let mark = match severity {
                Severity::Ok => "ok",
                Severity::Warning => "warn",
                Severity::Skipped => "skip",
                Severity::Failed(_) => "FAIL",
            };
            let line = format!("{mark:<5} {what:<14} {detail}");
            output::result_folded(&line, INDENT);
        }
        output::result(&summary(&context, &findings));
    }
    Ok(code)
}

/// The last line.
fn summary(context: &Context, findings: &[Finding]) -> String {
    let count =
        |is: fn(&Severity) -> bool| findings.iter().filter(|found| is(&found.severity)).count();
    let times = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let failed = count(|severity| matches!(severity, Severity::Failed(_)));
    let warnings = count(|severity| *severity == Severity::Warning);
    let mut line = match failed {
        0 => "all checks passed".to_owned(),
        failed => format!("{} failed", times(failed, "check")),
    };
    if warnings > 0 {
        line.push_str(&format!(", {}", times(warnings, "warning")));
    }
    let is_placeholder = |validator: &&ValidatorConfig| {
        validator
            .config
            .get("program")
            .and_then(Value::as_array)
            .is_some_and(|words| words.iter().map(Value::as_str).eq(PLACEHOLDER.map(Some)))
    };
    if let Some(validator) = context.loaded.config.validators.iter().find(is_placeholder) {
        let key = format!("validator.{}.program", validator.index);
        let place = context.loaded.origin(&key).unwrap_or_default();
        line.push_str(&format!("; write the check first: `program`, {place}"));
    }
    line
}

/// The exit status with which `run` would end. It looks at the state first, and at the agent last.
fn exit_status(findings: &[Finding]) -> u8 {
    let failed =
        |code: u8| findings.iter().any(|finding| finding.severity == Severity::Failed(code));
    let in_order = [
        exit::DAMAGED,
        exit::INTERNAL,
        exit::CONFIG,
        exit::BUSY,
        exit::UNAVAILABLE,
        exit::HUMAN,
        exit::LIMIT,
    ];
    in_order.into_iter().find(|code| failed(*code)).unwrap_or(exit::OK)
}

fn check_configuration(context: &Context, file: &ConfigFile) -> Finding {
    let detail = match file.place {
        ConfigPlace::Named(_) | ConfigPlace::Found { .. } => context.file.display().to_string(),
        ConfigPlace::Missing { .. } => describe_missing_file(&context.judged).to_owned(),
    };
    Finding::new("configuration", Ok(detail), exit::CONFIG)
}

/// What came of the checks.
enum Checked {
    All(Vec<Finding>),
    /// A signal ended them, with this exit status.
    Stopped(u8),
}

async fn run_checks(
    context: &Context,
    file: &ConfigFile,
    rehearses: bool,
) -> Result<Checked, CommandError> {
    let mut findings = vec![check_configuration(context, file)];
    // Without one the check of the agent says the same; that there is none is a finding of its own.
    let policy = SandboxPolicy::from_context(context);
    let no_sandbox = policy.as_ref().err().map_or(exit::UNAVAILABLE, CommandError::code);
    let policy = policy.unwrap_or_default();
    let plugins = Plugins::from_context(context)?;
    for (name, result) in plugins.probe_all().await {
        let result = result.map(|found| format!("{name}: {found}"));
        findings.push(Finding::new("plugin", result, exit::CONFIG));
    }
    // Before the checks hold the workspace.
    let outlook = start::find(context).await;
    let processes = CheckProcesses::begin_unlocked(context)?;
    let setup = ValidationSetup::build(context, &plugins, policy.as_ref(), &processes).await?;
    let ValidationSetup { registry, build, policy: judges, agent: first, env } = &setup;
    findings.push(Finding::new("files", check_files(context), exit::CONFIG));
    findings.extend(check_backlog(context).await);
    findings.extend(check_prompt(context));
    let task = tasks::require(&context.loaded).err().map(|error| Err(error.detail()));
    findings.extend(task.map(|problem| Finding::new("task", problem, exit::CONFIG)));
    findings.extend(check_setup(context, registry, build));
    findings.extend(check_surroundings(context));
    findings.extend(receivers::check(context));
    findings.extend(hooks::check(context));
    findings.push(Finding::new("sandbox", sandbox::report(context), no_sandbox));
    let warnings = policy.as_ref().map(|policy| policy.warnings(&judges.protects())).into_iter();
    findings.extend(warnings.flatten().map(|detail| Finding::warning("sandbox", detail)));
    findings.extend(check_git(context).await);
    findings.extend(check_worktree(context).await);
    findings.extend(check_dirt(context).await);
    findings.extend(check_check_place(context).await);
    findings.extend(check_limits(context, first));
    findings.extend(handoff::check(context.loaded.config.handoff, first));
    findings.extend(rate_windows::check(&context.loaded.config.limits, first));
    findings.extend(check_agent_and_login(context, first, env).await);
    findings.extend(check_other_agents(context, registry, build, judges).await?);
    findings.extend(check_validators(context, &judges.check_setup(&context.loaded, env).await));
    if !git::has_unfinished_run(context)
        && let Err(error) = judges.check_globs(&context.loaded)
    {
        findings.push(Finding::new("validator", Err(error.to_string()), exit::CONFIG));
    }
    findings.extend(check_completion(judges));
    findings.push(check_state(context));
    findings.extend(check_rollback(context));
    let of_start = start::findings(&outlook, &findings);
    findings.extend(of_start);
    let is_sound = findings.iter().all(|finding| finding.failure().is_none());
    let is_free = processes.workspace.is_some();
    match baseline_blocker(context, is_sound, is_free, &outlook) {
        Some(why) => findings.push(Finding::skipped("baseline", why)),
        None => findings.extend(check_baseline(context, judges, env).await),
    }
    if rehearses {
        match rehearsal::try_moves(context, &setup, &processes, (is_sound, is_free)).await? {
            Some(found) => findings.extend(found),
            None => return Ok(Checked::Stopped(processes.stop_status())),
        }
    }
    Ok(Checked::All(findings))
}

/// Looks at the agent, and whether somebody is logged in if it is there.
async fn check_agent_and_login(
    context: &Context,
    first: &ConfiguredAgent,
    env: &BTreeMap<String, String>,
) -> Vec<Finding> {
    let found = check_agent(context, first, env).await;
    if let Err((ErrorClass::Unauthenticated, problem)) = found {
        return vec![Finding::new("login", Err(problem), exit::HUMAN)];
    }
    let is_there = found.is_ok();
    let found = found.map_err(|(_, problem)| problem);
    let mut findings = vec![Finding::new("agent", found, exit::UNAVAILABLE)];
    if is_there {
        let adapter = &context.loaded.config.agent.adapter;
        let problem = login::find_problem(context, adapter, first, env).await;
        findings.extend(problem.map(|problem| Finding::new("login", Err(problem), exit::HUMAN)));
    }
    findings
}

/// Looks at each agent that takes over from another, and at those that review.
async fn check_other_agents(
    context: &Context,
    registry: &Registry,
    build: &BuildContext,
    judges: &CompletionPolicy,
) -> Result<Vec<Finding>, CommandError> {
    let mut findings = Vec::new();
    let config = &context.loaded.config;
    let fallback = config.fallback(None);
    let take_over = config.other_agents(None).into_iter().map(|name| {
        let what = if fallback.contains(&name) { "fallback" } else { "escalate" };
        (name, what)
    });
    let review = judges.reviewing_agents().into_iter().map(|name| (name, "review"));
    for (name, what) in take_over.chain(review) {
        let next = ConfiguredAgent::build(&context.loaded, registry, build, Some(name)).await?;
        let env = next.environment(&context.loaded, &context.vars);
        let result = check_agent(context, &next, &env).await;
        let result = result.map(|found| format!("{name}: {found}"));
        let result = result.map_err(|(_, problem)| format!("{name}: {problem}"));
        findings.push(Finding::new(what, result, exit::UNAVAILABLE));
    }
    Ok(findings)
}

/// What lies outside of the configuration.
fn check_surroundings(context: &Context) -> Vec<Finding> {
    let workspace = &context.loaded.config.run.workspace;
    let warnings = [
        ("repository", surroundings::repository(workspace)),
        ("environment", surroundings::foreign_variables(&context.vars)),
    ];
    let warnings = warnings.into_iter().filter_map(|(what, detail)| Some((what, detail?)));
    let mut findings: Vec<Finding> =
        warnings.map(|(what, detail)| Finding::warning(what, detail)).collect();
    findings.push(match surroundings::disk(context) {
        Ok(detail) => Finding { what: "disk", severity: Severity::Ok, detail },
        Err(low) => Finding::warning("disk", low),
    });
    findings
}

/// The prompt as `init` wrote it, which a run is refused for.
fn check_prompt(context: &Context) -> Option<Finding> {
    let place = placeholder::placeholder(&context.loaded.config)?;
    Some(Finding::new("prompt", Err(placeholder::needs_task(&place)), exit::CONFIG))
}

/// Why the checks are not run on the workspace as it is.
fn baseline_blocker(
    context: &Context,
    is_sound: bool,
    is_free: bool,
    outlook: &Result<Outlook, CommandError>,
) -> Option<&'static str> {
    let config = &context.loaded.config;
    let begun = |layout: &Layout| {
        let found = read_current_run(layout, |_| {}).ok().flatten();
        found.is_some_and(|found| found.state.iterations > 0)
    };
    let layout = context.layout().ok();
    if config.run.workspace.exists() && !is_free {
        Some("a run is active, or other checks")
    } else if !is_sound {
        Some("a check above failed")
    } else if config.completion.baseline == BaselineMode::Off {
        Some("`completion.baseline` is \"off\"")
    } else if !config.run.workspace.exists() {
        Some("the workspace is created when the run begins")
    } else if matches!(outlook, Ok(Outlook::Complete { .. })) {
        Some("the run is complete, so that none would begin")
    } else if !matches!(outlook, Ok(Outlook::Begins)) && layout.as_ref().is_some_and(begun) {
        Some("the run has begun, so the workspace is not as it was")
    } else if !config.run.setup.is_empty() {
        Some("`run.setup` prepares the workspace for them, which changes it")
    } else {
        None
    }
}

/// Runs the checks once on the unchanged workspace, as the next run would.
async fn check_baseline(
    context: &Context,
    judges: &CompletionPolicy,
    env: &BTreeMap<String, String>,
) -> Vec<Finding> {
    let workspace = match context.loaded.config.run.workspace.canonicalize() {
        Ok(workspace) => workspace,
        Err(error) => {
            return vec![Finding::skipped("baseline", &format!("the workspace: {error}"))];
        }
    };
    let checkout = match TransientCheckout::make(context).await {
        Ok(checkout) => checkout,
        Err(error) => return vec![Finding::skipped("baseline", &error.detail())],
    };
    let site = CheckSite { workspace: &workspace, checkout: checkout.overlays(), env };
    let BaselineReport { verdicts, warnings } = judges.check_baseline(site, None).await;
    let mut findings = vec![describe_baseline(context, &verdicts)];
    let is_unable = !warnings.is_empty();
    findings.extend(warnings.into_iter().map(|warning| Finding::warning("tests", warning)));
    if !is_unable {
        findings.extend(describe_counts(&verdicts));
    }
    findings
}

/// Says which tests the checks ran, and of which checks that cannot be read.
fn describe_counts(verdicts: &[ValidatorVerdict]) -> Option<Finding> {
    let has_verdict = |named: &&ValidatorVerdict| !matches!(named.verdict, Verdict::Error { .. });
    let each = verdicts.iter().filter(has_verdict).map(|named| {
        let name = &named.validator;
        match named.tests {
            Some(tests) => format!("`{name}`: {tests}"),
            None => format!(
                "what `{name}` prints has no number of tests that can be read, so nobody notices if fewer run"
            ),
        }
    });
    let detail = each.collect::<Vec<_>>().join("; ");
    (!detail.is_empty()).then_some(Finding { what: "tests", severity: Severity::Ok, detail })
}

fn describe_baseline(context: &Context, verdicts: &[ValidatorVerdict]) -> Finding {
    let config = &context.loaded.config;
    let mode = config.completion.baseline;
    let has_backlog = config.backlog.is_some();
    let accepting = verdicts.iter().filter(|named| named.verdict.is_accepted());
    let failing = verdicts.iter().find(|named| !named.verdict.is_accepted());
    let (severity, detail) = match failing {
        _ if verdicts.is_empty() => {
            let is_any_required = config.validators.iter().any(|validator| validator.required);
            return Finding::skipped(
                "baseline",
                if is_any_required {
                    "none of the required validators runs a check"
                } else {
                    "no validator is required"
                },
            );
        }
        Some(ValidatorVerdict { validator, verdict: Verdict::Error { message }, .. }) => {
            (Severity::Warning, format!("no verdict by `{validator}`: {}", one_line(message, 200)))
        }
        Some(ValidatorVerdict { validator, .. }) => {
            (Severity::Ok, format!("`{validator}` rejects the unchanged workspace, as it should"))
        }
        None => {
            let names: Vec<&str> = accepting.map(|named| named.validator.as_str()).collect();
            let (severity, consequence) = match mode {
                // Each item's run decides, with its item in progress.
                BaselineMode::MustFail if has_backlog => (
                    Severity::Warning,
                    "`completion.baseline = \"must_fail\"` may let no run begin",
                ),
                BaselineMode::MustFail => {
                    let must_fail = "`completion.baseline = \"must_fail\"` lets no run begin";
                    (Severity::Failed(exit::CONFIG), must_fail)
                }
                BaselineMode::Warn | BaselineMode::Off => match config.completion.when {
                    CompletionTrigger::Claimed => {
                        (Severity::Warning, "a claim would complete the run at once")
                    }
                    CompletionTrigger::Proved => {
                        (Severity::Warning, "the first change would complete the run")
                    }
                },
            };
            let names = names.join(", ");
            (severity, format!("accepted by {names}, although nothing is done yet: {consequence}"))
        }
    };
    let outside = if has_backlog { OUTSIDE_OF_ITEMS } else { "" };
    Finding { what: "baseline", severity, detail: format!("{detail}{outside}") }
}

/// Whether the command of `run.setup` is there, or will be made; `None` without one. It is not run.
fn check_setup(context: &Context, registry: &Registry, build: &BuildContext) -> Option<Finding> {
    let setup = build_workspace_setup(&context.loaded, registry, build).transpose()?;
    let plan =
        setup.map(|setup| SetupPlan { command: setup.command(), missing: setup.missing_file() });
    Some(match plan {
        // It is skipped for good.
        Ok(SetupPlan { missing: Some(file), .. })
            if context.loaded.config.initializer.is_none() =>
        {
            let file = file.display();
            Finding::warning(
                "setup",
                format!("{file} does not exist, and there is no [initializer] to make it"),
            )
        }
        plan => {
            let text = plan.map(|plan| setup_text(&plan)).map_err(|error| error.to_string());
            Finding::new("setup", text, exit::CONFIG)
        }
    })
}

/// Whether git can be used as `[git]` says; `None` if it is not to be.
async fn check_git(context: &Context) -> Option<Finding> {
    let mode = context.loaded.config.git.commit;
    if mode == CommitMode::Off {
        return None;
    }
    let what = match mode {
        CommitMode::Off | CommitMode::Checkpoint => "a checkpoint after each iteration",
        CommitMode::Iteration => "a checkpoint and a commit after each iteration",
        CommitMode::Handoff => "a checkpoint after each iteration, a commit at each hand-off",
    };
    let programs = match (mode, context.loaded.config.sandbox.mode) {
        (CommitMode::Off | CommitMode::Checkpoint, _) => "",
        (_, SandboxMode::Landlock) => "; hooks and filters run in the sandbox",
        (_, SandboxMode::Off) => "; hooks and filters run what the agent wrote with your rights",
    };
    let named = notices::describe_hook(context).map(|text| format!("; {text}")).unwrap_or_default();
    let result = git::check(context).await.map_err(|error| error.detail());
    Some(Finding::new("git", result.map(|()| format!("{what}{programs}{named}")), exit::CONFIG))
}

/// The worktree in which the run would work.
async fn check_worktree(context: &Context) -> Option<Finding> {
    let config = &context.loaded.config;
    if !config.git.worktree || !config.run.workspace.exists() {
        return None;
    }
    let found = match git::verify_worktree(context) {
        Ok(()) => git::check_worktree(context).await,
        Err(error) => Err(error),
    };
    Some(Finding::new("worktree", found.map_err(|error| error.detail()), exit::CONFIG))
}

/// What of the user's is not committed where a run would begin.
async fn check_dirt(context: &Context) -> Option<Finding> {
    if git::has_unfinished_run(context) {
        return None;
    }
    let redactor = Redactor::new(&context.loaded.config.env, &context.vars);
    let dirt = git::DirtSearch::begin(context)?.describe(&redactor).await;
    dirt.map(|dirt| Finding::warning("repository", dirt))
}

/// Where the checks are run.
async fn check_check_place(context: &Context) -> Option<Finding> {
    let what = "checkout";
    Some(match FoundPlace::find(context).await.transpose()? {
        Ok(FoundPlace::Checkout) => {
            Finding::new(what, Ok("the checks run in a checkout of the work".into()), exit::OK)
        }
        Ok(FoundPlace::Workspace(why)) => {
            let detail = format!("the checks run in the workspace: {why}");
            Finding { what, severity: Severity::Warning, detail }
        }
        Err(error) => Finding::new(what, Err(error.detail()), exit::CONFIG),
    })
}

/// A limit that this agent cannot be held to, as the run would refuse it or warn of it.
fn check_limits(context: &Context, agent: &ConfiguredAgent) -> Option<Finding> {
    let (severity, detail) = match agent.check_limits(&context.loaded) {
        Ok(warning) => (Severity::Warning, warning?),
        Err(errors) => (Severity::Failed(exit::CONFIG), errors.to_string()),
    };
    Some(Finding { what: "limits", severity, detail })
}

fn check_files(context: &Context) -> Result<String, String> {
    let run = &context.loaded.config.run;
    match context.loaded.check_files() {
        Ok(()) => Ok(run.workspace.display().to_string()),
        // It is made when the run begins.
        Err(_) if run.template.is_some() => {
            Ok("the workspace will be created from its template".to_owned())
        }
        Err(errors) => Err(errors.to_string()),
    }
}

async fn check_backlog(context: &Context) -> Option<Finding> {
    let found = backlog_view::check(context).await.transpose()?;
    let code = found.as_ref().err().map_or(exit::OK, CommandError::code);
    Some(match found {
        Ok(CheckedBacklog { summary, unread: Some(unread) }) => Finding {
            what: "backlog",
            severity: Severity::Warning,
            detail: format!("{summary}; {unread}"),
        },
        found => {
            let found = found.map(|found| found.summary).map_err(|error| error.detail());
            Finding::new("backlog", found, code)
        }
    })
}

fn check_validators(context: &Context, report: &SetupReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in &report.validators {
        let mut found = report.findings.iter().filter(|found| found.validator == *name).peekable();
        if found.peek().is_none() {
            findings.push(Finding::new("validator", Ok(name.clone()), exit::CONFIG));
        }
        findings.extend(found.map(|found| {
            let fatal = found.problem.is_fatal;
            let severity = if fatal { Severity::Failed(exit::CONFIG) } else { Severity::Warning };
            let place = found.place(&context.loaded);
            let detail = format!("{name} ({place}): {}", found.problem.message);
            Finding { what: "validator", severity, detail }
        }));
    }
    findings
}

/// What a completion would be worth less for.
fn check_completion(judges: &CompletionPolicy) -> Option<Finding> {
    let policy = judges.current_policy();
    let detail = if !policy.validates() {
        "NOT validated: the agent's claim is trusted"
    } else if policy.is_evidence_only() {
        EVIDENCE_ONLY
    } else {
        return None;
    };
    Some(Finding { what: "completion", severity: Severity::Warning, detail: detail.to_owned() })
}

/// Whether an agent would start, what was found, and what it can do.
async fn check_agent(
    context: &Context,
    driver: &ConfiguredAgent,
    env: &BTreeMap<String, String>,
) -> Result<String, (ErrorClass, String)> {
    let redactor = Redactor::new(&context.loaded.config.env, env);
    let found = driver.check(env).await.map_err(|error| {
        let text = redactor.text(&error.to_string()).into_owned();
        (error.class, text)
    })?;
    let found = redactor.text(&found);
    let can = capability_names(&driver.agent().describe().capabilities);
    Ok(if can.is_empty() {
        found.into_owned()
    } else {
        format!("{found} (can: {})", can.join(", "))
    })
}

/// A rollback that was interrupted, which the next run finishes.
fn check_rollback(context: &Context) -> Option<Finding> {
    let layout = context.layout().ok()?;
    let interrupted = rollback::describe_interrupted(&layout).ok()??;
    Some(Finding::warning("rollback", interrupted))
}

fn check_state(context: &Context) -> Finding {
    let layout = match context.layout() {
        Ok(layout) => layout,
        Err(error) => return Finding::new("state", Err(error.detail()), error.code()),
    };
    let held = Lock::holder(&layout).map_or(String::new(), |holder| format!(", held by {holder}"));
    let root = shorten_home(layout.root());
    match read_current_run(&layout, |_| {}) {
        Ok(None) => Finding::new("state", Ok(format!("{root}, no run yet{held}")), exit::OK),
        Ok(Some(found)) => match git::find_replaced(context) {
            Ok(None) => {
                Finding::new("state", Ok(format!("{root}, run {}{held}", found.run)), exit::OK)
            }
            Ok(Some(replaced)) => {
                Finding::new("state", Err(replaced.error().to_string()), exit::DAMAGED)
            }
            Err(error) => Finding::new("state", Err(error.detail()), error.code()),
        },
        Err(error) => {
            let error = CommandError::from(error);
            Finding::new("state", Err(error.detail()), error.code())
        }
    }
}
