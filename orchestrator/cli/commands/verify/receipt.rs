//! `verify RECEIPT`

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::receipts::{KeyFiles, TREE, definitions, read_public_key};
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_assembly::user_folders;
use ralph_orchestrator_engine::DigestedWork;
use ralph_orchestrator_receipt::{Acceptance, Envelope, MAX_ENVELOPE, PublicKey, Statement};
use ralph_orchestrator_safe_fs::{SymlinkPolicy, escape as escape_path, read_file, unescape};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::validation_setup::{CheckProcesses, ValidationSetup};
use ralph_orchestrator_text::{count, escape, one_line};
use serde_json::{Value, json};

use super::VerifyArgs;

/// Characters of a summary.
const SHOWN: usize = 160;
/// What takes the place of a secret.
const SECRET: &str = "***";

/// Verifies a receipt, without a look at any run. With `--rerun` also that the workspace is what it is about, and that
/// the validators accept it now.
pub(super) fn verify(
    file: &ConfigFile,
    args: &VerifyArgs,
    receipt: &Path,
) -> Result<u8, CommandError> {
    let bytes = read_file(receipt, MAX_ENVELOPE, SymlinkPolicy::Follow)
        .map_err(|error| CommandError::user(format!("{}: {error}", receipt.display())))?;
    let keys = trusted_keys(args)?;
    let verified = Envelope::from_json(&bytes).and_then(|envelope| envelope.verify(&keys));
    let (statement, key) = match verified {
        Ok(both) => both,
        Err(error) => return Ok(refuse(receipt, &[error.to_string()], args.json)),
    };
    if args.rerun {
        let context = git::enter_here(Context::with(file, &args.sets)?)?;
        let Compared { problems, uncounted_folders } = compare(&context, &statement)?;
        if !problems.is_empty() {
            return Ok(refuse(receipt, &problems, args.json));
        }
        if !uncounted_folders.is_empty() {
            let names: Vec<String> =
                uncounted_folders.iter().map(|path| escape_path(path)).collect();
            let names = names.join(", ");
            output::info(&format!(
                "hidden from the checks, since the receipt is not about it: {names}"
            ));
        }
        // It prints the verdicts, or the object.
        let code = super::run_checks(&context, args.json, &uncounted_folders, None)?;
        if code != exit::OK || args.json {
            return Ok(code);
        }
    }
    if args.json {
        output::json(&json!({
            "verified": true,
            "key": key.id(),
            "subject": statement.subject(),
            "completion": statement.completion(),
        }));
    } else {
        show(&statement, key);
    }
    Ok(exit::OK)
}

fn refuse(receipt: &Path, problems: &[String], is_json: bool) -> u8 {
    if is_json {
        output::json(&json!({ "verified": false, "problems": problems }));
    } else {
        for problem in problems {
            output::result(&format!("FAIL  {}: {}", receipt.display(), escape(problem)));
        }
        output::result("not verified");
    }
    exit::FAILED_CHECKS
}

fn trusted_keys(args: &VerifyArgs) -> Result<Vec<PublicKey>, CommandError> {
    if !args.keys.is_empty() {
        return args.keys.iter().map(|path| read_public_key(path)).collect();
    }
    let files = KeyFiles::new(&user_folders::variables());
    match files.public() {
        Some(key) => Ok(vec![key]),
        None => Err(CommandError::user("there is no key that is trusted").hinted(
            "name the public key of whoever made the receipt: --key FILE; `receipt key` prints it there",
        )),
    }
}

/// What there is beside what a receipt is about.
struct Compared {
    /// How the workspace and its configuration differ from that.
    problems: Vec<String>,
    uncounted_folders: Vec<PathBuf>,
}

fn compare(context: &Context, statement: &Statement) -> Result<Compared, CommandError> {
    let mut problems = Vec::new();
    let table: toml::Table = context
        .loaded
        .resolved_toml()
        .parse()
        .map_err(|error: toml::de::Error| CommandError::internal(error.to_string()))?;
    let now = definitions(&table);
    let completion = statement.completion();
    for validator in completion.validators.iter().filter(|validator| validator.required) {
        match now.get(&validator.name) {
            None => problems.push(format!(
                "the validator `{}` is not in the configuration any more",
                validator.name
            )),
            Some(table) if !is_as_stated(&validator.definition, table) => {
                problems.push(format!("the validator `{}` is another one now", validator.name));
            }
            Some(_) => {}
        }
    }
    let artefacts = completion.artefacts.iter().filter_map(|path| unescape(path));
    let DigestedWork { digests, uncounted_folders } = block_on(async {
        let (policy, plugins) =
            (SandboxPolicy::from_context(context)?, Plugins::from_context(context)?);
        // It starts none.
        let processes = CheckProcesses::default();
        let setup = ValidationSetup::build(context, &plugins, policy.as_ref(), &processes).await?;
        Ok(setup.policy.digest_work(&context.loaded, artefacts)?)
    })?;
    let expected = statement.subject().iter().filter_map(|subject| subject.digest.get(TREE));
    if !expected.clone().any(|digest| digests.contains(digest)) {
        let expected = expected.cloned().collect::<Vec<_>>().join(", ");
        let now = digests.first().cloned().unwrap_or_default();
        problems.push(format!(
            "the workspace is not what was accepted: its tree is {now}, expected {expected}"
        ));
    }
    Ok(Compared { problems, uncounted_folders })
}

/// Whether a value is what was stated, in which secrets are replaced.
fn is_as_stated(stated: &Value, now: &Value) -> bool {
    match (stated, now) {
        (Value::String(stated), Value::String(now)) => is_text_as_stated(stated, now),
        (Value::Array(stated), Value::Array(now)) => {
            stated.len() == now.len()
                && stated.iter().zip(now).all(|(stated, now)| is_as_stated(stated, now))
        }
        (Value::Object(stated), Value::Object(now)) => {
            stated.len() == now.len()
                && stated.iter().all(|(name, stated)| {
                    now.get(name).is_some_and(|now| is_as_stated(stated, now))
                })
        }
        (stated, now) => stated == now,
    }
}

fn is_text_as_stated(stated: &str, now: &str) -> bool {
    let Some((head, tail)) = stated.split_once(SECRET) else { return stated == now };
    let Some(mut rest) = now.strip_prefix(head) else { return false };
    let mut parts = tail.split(SECRET).peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    true
}

fn show(statement: &Statement, key: &PublicKey) {
    let completion = statement.completion();
    for validator in &completion.validators {
        let optional = if validator.required { "" } else { " (not required)" };
        output::result(&match &validator.verdict {
            Acceptance::Accepted { summary } => {
                format!("ok    {}{optional}: {}", validator.name, one_line(summary, SHOWN))
            }
            Acceptance::NotAccepted { reason } => {
                format!("FAIL  {}{optional}: {}", validator.name, one_line(reason, SHOWN))
            }
        });
    }
    let model = completion.model.as_ref().map(|model| format!(" ({model})")).unwrap_or_default();
    let cost = completion.cost_usd.map(|dollars| format!(", ${dollars:.2}"));
    output::result(&format!(
        "{} by {}{model}{}, accepted {}",
        count(completion.iterations, "iteration"),
        one_line(&completion.agent, SHOWN),
        cost.unwrap_or_default(),
        completion.completed.as_deref().unwrap_or("at an unknown time"),
    ));
    if completion.accepted_before == Some(true) {
        output::info(
            "warning: the checks had accepted before any work: they prove little about it",
        );
    }
    for (name, digest) in statement.subject().iter().flat_map(|subject| &subject.digest) {
        output::result(&format!("{name} {digest}"));
    }
    output::result(&format!("verified: signed by key {}", key.id()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_may_be_anything_and_nothing_else_may() {
        for (stated, now) in [
            (json!("make"), json!("make")),
            (json!(["a", "--key=***"]), json!(["a", "--key=x"])),
            (json!({ "a": "x***y***z" }), json!({ "a": "x1y2z" })),
            (json!("***"), json!("")),
        ] {
            assert!(is_as_stated(&stated, &now), "{stated} {now}");
        }
        for (stated, now) in [
            (json!("make"), json!("true")),
            (json!(["a", "--key=***"]), json!(["a", "--other=x"])),
            (json!({ "a": "x***y***z" }), json!({ "a": "x1z" })),
            (json!({ "a": 1 }), json!({ "a": 1, "b": 2 })),
            (json!(["a"]), json!(["a", "b"])),
            (json!(true), json!(false)),
        ] {
            assert!(!is_as_stated(&stated, &now), "{stated} {now}");
        }
    }
}
