//! `doctor`

use std::collections::BTreeMap;
use std::path::Path;

use orchestrator::engine::{Driver, Judges, Redactor, build_context};
use orchestrator::registry::Surroundings;
use orchestrator::state::{Lock, peek};
use ralph_orchestrator_supervise::KillSwitch;

use crate::args::Doctor;
use crate::commands::block_on;
use crate::context::Context;
use crate::error::{CommandError, exit};
use crate::plugins::Plugins;
use crate::render::text::abilities;
use crate::sandbox::{self, Policy};
use crate::{output, registry};

struct Finding {
    what: &'static str,
    result: Result<String, String>,
}

pub(crate) fn doctor(file: &Path, args: &Doctor) -> Result<u8, CommandError> {
    let context = Context::with(file, &args.sets)?;
    let findings = block_on(examine(&context))?;
    let well = findings.iter().all(|finding| finding.result.is_ok());
    if args.json {
        let rows: Vec<_> = findings
            .iter()
            .map(|finding| {
                serde_json::json!({
                    "check": finding.what,
                    "ok": finding.result.is_ok(),
                    "detail": finding.result.as_ref().unwrap_or_else(|problem| problem),
                })
            })
            .collect();
        output::json(&serde_json::json!({"ok": well, "checks": rows}));
    } else {
        for Finding { what, result } in &findings {
            match result {
                Ok(detail) => output::result(&format!("ok    {what:<14} {detail}")),
                Err(problem) => output::result(&format!("BAD   {what:<14} {problem}")),
            }
        }
    }
    Ok(if well { exit::OK } else { exit::UNAVAILABLE })
}

async fn examine(context: &Context) -> Result<Vec<Finding>, CommandError> {
    let mut findings =
        vec![Finding { what: "configuration", result: Ok(context.file.display().to_string()) }];
    // Without one the check of the agent says the same; that there is none is a finding of its own.
    let policy = Policy::of(context).unwrap_or_default();
    let plugins = Plugins::of(context)?;
    for (name, result) in plugins.look().await {
        let result = result.map(|found| format!("{name}: {found}"));
        findings.push(Finding { what: "plugin", result });
    }
    let plain = registry::plain(&plugins);
    let build = build_context(&context.loaded, &context.vars);
    let judges = Judges::build(&context.loaded, &plain, &build).await?;
    let surroundings = Surroundings { protects: judges.protects(), ..Surroundings::default() };
    let registry = registry::whole(&plugins, policy.as_ref(), surroundings, KillSwitch::default());
    let first = Driver::build(&context.loaded, &registry, &build, None).await?;
    let env = first.environment(&context.loaded, &context.vars);
    let files = context.loaded.check_files();
    findings.push(Finding {
        what: "files",
        result: match files {
            Ok(()) => Ok(context.loaded.config.run.workspace.display().to_string()),
            // It is made when the run begins.
            Err(_) if context.loaded.config.run.template.is_some() => {
                Ok("the workspace will be made from its template".to_owned())
            }
            Err(errors) => Err(errors.to_string()),
        },
    });
    findings.push(Finding { what: "sandbox", result: sandbox::report(context) });
    let result = look_at(context, &first, &env).await;
    findings.push(Finding { what: "agent", result });
    for name in context.loaded.config.fallback(None) {
        let next = Driver::build(&context.loaded, &registry, &build, Some(name)).await?;
        let env = next.environment(&context.loaded, &context.vars);
        let result = look_at(context, &next, &env).await;
        let result = result.map(|found| format!("{name}: {found}"));
        let result = result.map_err(|problem| format!("{name}: {problem}"));
        findings.push(Finding { what: "fallback", result });
    }
    for (name, result) in judges.check_all(&env).await {
        findings.push(Finding {
            what: "validator",
            result: result.map(|()| name.clone()).map_err(|problem| format!("{name}: {problem}")),
        });
    }
    findings.push(state(context));
    Ok(findings)
}

/// Whether an agent would start, what was found, and what it can do.
async fn look_at(
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
    let result = context.layout().map_err(|error| error.render(false)).and_then(|layout| {
        let held =
            Lock::holder(&layout).map_or(String::new(), |holder| format!(", held by {holder}"));
        let root = layout.root().display();
        match peek(&layout, |_| {}) {
            Ok(None) => Ok(format!("{root}, no run yet{held}")),
            Ok(Some(found)) => Ok(format!("{root}, run {}{held}", found.run)),
            Err(error) => Err(error.to_string()),
        }
    });
    Finding { what: "state", result }
}
