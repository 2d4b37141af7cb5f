//! `doctor`

mod login;
mod surroundings;

use std::collections::BTreeMap;

use ralph_orchestrator_config::{BaselineMode, ValidatorConfig};
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_core::engine::{Driver, Judges, Redactor, SetupReport, build_context};
use ralph_orchestrator_core::machine::ValidatorVerdict;
use ralph_orchestrator_core::registry::Surroundings;
use ralph_orchestrator_core::store::{Lock, read_current_run};
use ralph_orchestrator_supervisor::KillSwitch;
use ralph_validator_command::PLACEHOLDER;
use serde_json::Value;

use crate::args::Doctor;
use crate::commands::{block_on, init};
use crate::context::Context;
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::plugins::Plugins;
use crate::render::text::{EVIDENCE_ONLY, abilities, one_line};
use crate::sandbox::{self, Policy};
use crate::{output, registry};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    /// A run would begin, and would say the same.
    Warning,
    /// A run would not begin: it would end with this exit status.
    Failed(u8),
}

struct Finding {
    what: &'static str,
    level: Level,
    detail: String,
}

impl Finding {
    const fn warning(what: &'static str, detail: String) -> Self {
        Self { what, level: Level::Warning, detail }
    }

    fn new(what: &'static str, result: Result<String, String>, code: u8) -> Self {
        match result {
            Ok(detail) => Self { what, level: Level::Ok, detail },
            Err(detail) => Self { what, level: Level::Failed(code), detail },
        }
    }
}

pub(crate) fn doctor(file: &ConfigFile, args: &Doctor) -> Result<u8, CommandError> {
    let context = Context::with(file, &args.sets)?;
    let findings = block_on(examine(&context))?;
    let code = exit_status(&findings);
    if args.json {
        let rows: Vec<_> = findings
            .iter()
            .map(|finding| {
                serde_json::json!({
                    "check": finding.what,
                    "ok": !matches!(finding.level, Level::Failed(_)),
                    "warning": finding.level == Level::Warning,
                    "detail": finding.detail,
                })
            })
            .collect();
        output::json(&serde_json::json!({"ok": code == exit::OK, "checks": rows}));
    } else {
        for Finding { what, level, detail } in &findings {
            let mark = match level {
                Level::Ok => "ok",
                Level::Warning => "warn",
                Level::Failed(_) => "FAIL",
            };
            output::result(&format!("{mark:<5} {what:<14} {detail}"));
        }
        output::result(&summary(&context, &findings));
    }
    Ok(code)
}

/// The last line.
fn summary(context: &Context, findings: &[Finding]) -> String {
    let count = |is: fn(&Level) -> bool| findings.iter().filter(|found| is(&found.level)).count();
    let times = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let failed = count(|level| matches!(level, Level::Failed(_)));
    let warnings = count(|level| *level == Level::Warning);
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
    let failed = |code: u8| findings.iter().any(|finding| finding.level == Level::Failed(code));
    let in_order = [exit::DAMAGED, exit::INTERNAL, exit::CONFIG, exit::UNAVAILABLE, exit::HUMAN];
    in_order.into_iter().find(|code| failed(*code)).unwrap_or(exit::OK)
}

async fn examine(context: &Context) -> Result<Vec<Finding>, CommandError> {
    let mut findings =
        vec![Finding::new("configuration", Ok(context.file.display().to_string()), exit::CONFIG)];
    // Without one the check of the agent says the same; that there is none is a finding of its own.
    let policy = Policy::of(context);
    let no_sandbox = policy.as_ref().err().map_or(exit::UNAVAILABLE, CommandError::code);
    let policy = policy.unwrap_or_default();
    let plugins = Plugins::of(context)?;
    for (name, result) in plugins.look().await {
        let result = result.map(|found| format!("{name}: {found}"));
        findings.push(Finding::new("plugin", result, exit::CONFIG));
    }
    let plain = registry::plain(&plugins);
    let build = build_context(&context.loaded, &context.vars);
    let judges = Judges::build(&context.loaded, &plain, &build).await?;
    let surroundings = Surroundings { protects: judges.protects(), ..Surroundings::default() };
    let registry = registry::whole(&plugins, policy.as_ref(), surroundings, KillSwitch::default());
    let first = Driver::build(&context.loaded, &registry, &build, None).await?;
    let env = first.environment(&context.loaded, &context.vars);
    findings.push(Finding::new("files", files(context), exit::CONFIG));
    findings.extend(prompt(context));
    findings.extend(around(context));
    findings.push(Finding::new("sandbox", sandbox::report(context), no_sandbox));
    let closed = policy.as_ref().and_then(|policy| policy.warning(&judges.protects()));
    findings.extend(closed.map(|detail| Finding::warning("sandbox", detail)));
    findings.extend(limits(context, &first));
    let found = examine_agent(context, &first, &env).await;
    let is_there = found.is_ok();
    findings.push(Finding::new("agent", found, exit::UNAVAILABLE));
    if is_there {
        let adapter = &context.loaded.config.agent.adapter;
        let problem = login::problem(context, adapter, &first, &env).await;
        findings.extend(problem.map(|problem| Finding::new("login", Err(problem), exit::HUMAN)));
    }
    for name in context.loaded.config.fallback(None) {
        let next = Driver::build(&context.loaded, &registry, &build, Some(name)).await?;
        let env = next.environment(&context.loaded, &context.vars);
        let result = examine_agent(context, &next, &env).await;
        let result = result.map(|found| format!("{name}: {found}"));
        let result = result.map_err(|problem| format!("{name}: {problem}"));
        findings.push(Finding::new("fallback", result, exit::UNAVAILABLE));
    }
    findings.extend(validators(context, &judges.check_setup(&context.loaded, &env).await));
    if !has_begun(context)
        && let Err(error) = judges.check_globs(&context.loaded)
    {
        findings.push(Finding::new("validator", Err(error.to_string()), exit::CONFIG));
    }
    findings.extend(completion(&judges));
    findings.push(state(context));
    if findings.iter().all(|finding| !matches!(finding.level, Level::Failed(_))) {
        findings.extend(baseline(context, &judges, &env).await);
    }
    Ok(findings)
}

/// Whether there is a run that `run` would resume: what it protects is fixed.
fn has_begun(context: &Context) -> bool {
    let found =
        context.layout().ok().and_then(|layout| read_current_run(&layout, |_| {}).ok().flatten());
    found.is_some_and(|found| found.state.completion().is_none())
}

/// What lies outside of the configuration.
fn around(context: &Context) -> Vec<Finding> {
    let workspace = &context.loaded.config.run.workspace;
    let warnings = [
        ("repository", surroundings::repository(workspace)),
        ("environment", surroundings::foreign_variables(&context.vars)),
    ];
    let warnings = warnings.into_iter().filter_map(|(what, detail)| Some((what, detail?)));
    let mut findings: Vec<Finding> =
        warnings.map(|(what, detail)| Finding::warning(what, detail)).collect();
    findings.push(match surroundings::disk(context) {
        Ok(detail) => Finding { what: "disk", level: Level::Ok, detail },
        Err(low) => Finding::warning("disk", low),
    });
    findings
}

/// The prompt as `init` wrote it, which a run is refused for.
fn prompt(context: &Context) -> Option<Finding> {
    let place = init::placeholder(&context.loaded.config)?;
    Some(Finding::new("prompt", Err(init::needs_task(&place)), exit::CONFIG))
}

/// What the checks say before any work is done, as the next run would find out: they are run once.
/// Nothing if that run would not run them, or another one goes on.
async fn baseline(
    context: &Context,
    judges: &Judges,
    env: &BTreeMap<String, String>,
) -> Option<Finding> {
    let config = &context.loaded.config;
    let mode = config.completion.baseline;
    let layout = context.layout().ok()?;
    let begun =
        read_current_run(&layout, |_| {}).ok()?.is_some_and(|found| found.state.iterations > 0);
    let workspace = config.run.workspace.canonicalize().ok()?;
    if mode == BaselineMode::Off || begun || Lock::holder(&layout).is_some() {
        return None;
    }
    let verdicts = judges.check_baseline(&workspace, env, None).await;
    let accepting = verdicts.iter().filter(|named| named.verdict.is_accepted());
    let failing = verdicts.iter().find(|named| !named.verdict.is_accepted());
    let (level, detail) = match failing {
        _ if verdicts.is_empty() => return None,
        Some(ValidatorVerdict { validator, verdict: Verdict::Error { message }, .. }) => {
            (Level::Warning, format!("`{validator}` could not check: {}", one_line(message, 200)))
        }
        Some(ValidatorVerdict { validator, .. }) => {
            (Level::Ok, format!("`{validator}` rejects before any work is done, as it should"))
        }
        None => {
            let names: Vec<&str> = accepting.map(|named| named.validator.as_str()).collect();
            let detail = format!(
                "{} accept before any work is done: a claim would complete the run at once",
                names.join(", ")
            );
            let level = match mode {
                BaselineMode::MustFail => Level::Failed(exit::HUMAN),
                BaselineMode::Warn | BaselineMode::Off => Level::Warning,
            };
            (level, detail)
        }
    };
    Some(Finding { what: "baseline", level, detail })
}

/// A limit that this agent cannot be held to, as the run would refuse it or warn of it.
fn limits(context: &Context, agent: &Driver) -> Option<Finding> {
    let (level, detail) = match agent.check_limits(&context.loaded) {
        Ok(warning) => (Level::Warning, warning?),
        Err(errors) => (Level::Failed(exit::CONFIG), errors.to_string()),
    };
    Some(Finding { what: "limits", level, detail })
}

fn files(context: &Context) -> Result<String, String> {
    let run = &context.loaded.config.run;
    match context.loaded.check_files() {
        Ok(()) => Ok(run.workspace.display().to_string()),
        // It is made when the run begins.
        Err(_) if run.template.is_some() => {
            Ok("the workspace will be made from its template".to_owned())
        }
        Err(errors) => Err(errors.to_string()),
    }
}

fn validators(context: &Context, report: &SetupReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in &report.validators {
        let mut found = report.findings.iter().filter(|found| found.validator == *name).peekable();
        if found.peek().is_none() {
            findings.push(Finding::new("validator", Ok(name.clone()), exit::CONFIG));
        }
        findings.extend(found.map(|found| {
            let fatal = found.problem.is_fatal;
            let level = if fatal { Level::Failed(exit::CONFIG) } else { Level::Warning };
            let place = found.place(&context.loaded);
            let detail = format!("{name} ({place}): {}", found.problem.message);
            Finding { what: "validator", level, detail }
        }));
    }
    findings
}

/// What a completion would be worth less for.
fn completion(judges: &Judges) -> Option<Finding> {
    let policy = judges.current_policy();
    let detail = if !policy.validates() {
        "NOT validated: the agent's claim is trusted"
    } else if policy.is_evidence_only() {
        EVIDENCE_ONLY
    } else {
        return None;
    };
    Some(Finding { what: "completion", level: Level::Warning, detail: detail.to_owned() })
}

/// Whether an agent would start, what was found, and what it can do.
async fn examine_agent(
    context: &Context,
    driver: &Driver,
    env: &BTreeMap<String, String>,
) -> Result<String, String> {
    let redactor = Redactor::new(&context.loaded.config.env, env);
    let found = driver.agent().check(env).await;
    let found = found.map_err(|error| redactor.text(&error.to_string()).into_owned())?;
    let found = redactor.text(&found);
    let can = abilities(&driver.agent().describe().capabilities);
    Ok(if can.is_empty() {
        found.into_owned()
    } else {
        format!("{found} (can: {})", can.join(", "))
    })
}

fn state(context: &Context) -> Finding {
    let layout = match context.layout() {
        Ok(layout) => layout,
        Err(error) => return Finding::new("state", Err(error.render(false)), error.code()),
    };
    let held = Lock::holder(&layout).map_or(String::new(), |holder| format!(", held by {holder}"));
    let root = layout.root().display();
    match read_current_run(&layout, |_| {}) {
        Ok(None) => Finding::new("state", Ok(format!("{root}, no run yet{held}")), exit::OK),
        Ok(Some(found)) => {
            Finding::new("state", Ok(format!("{root}, run {}{held}", found.run)), exit::OK)
        }
        Err(error) => {
            let message = error.to_string();
            Finding::new("state", Err(message), CommandError::from(error).code())
        }
    }
}
