//! Receipts of completed runs: drawn from their journals, signed with the user's key.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_engine::{Finished, Redactor};
use ralph_orchestrator_machine::{StopReason, ValidatorVerdict};
use ralph_orchestrator_receipt::{
    Acceptance, Completion, Envelope, EvidenceDigest, JournalHead, PublicKey, SigningKey,
    Statement, Subject, TokenCounts, ValidatorStatement,
};
use ralph_orchestrator_safe_fs::{SymlinkPolicy, escape, read_file, read_if_exists, real_path};
use ralph_orchestrator_store::{Disk, Layout, StoredRun, read_run, read_run_config};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toml::Table;

use crate::context::Context;
use crate::error::CommandError;
use crate::user_folders::config_home;

/// The name of the digest of a workspace's tree, which only this program computes.
pub const TREE: &str = "ralphTree";
/// Longer than any key or configuration.
const LONGEST: usize = 4 << 20;
/// The largest journal.
const LONGEST_JOURNAL: usize = 1 << 30;

/// The user's key, beside the user's configuration.
pub struct KeyFiles {
    private: PathBuf,
    public: PathBuf,
}

impl KeyFiles {
    /// Finds the keys of this user.
    pub fn new(vars: &BTreeMap<String, String>) -> Self {
        let folder = config_home(vars).join("ralph-orchestrator");
        Self { private: folder.join("receipt-key.pem"), public: folder.join("receipt-key.pub.pem") }
    }

    /// Returns where the public key is.
    pub fn public_path(&self) -> &Path {
        &self.public
    }

    /// Returns the key, if there is one.
    ///
    /// # Errors
    /// It cannot be read, or an agent that works in `workspace` could.
    pub fn load(&self, workspace: &Path) -> Result<Option<SigningKey>, CommandError> {
        if real_path(&self.private).starts_with(real_path(workspace)) {
            let key = self.private.display();
            return Err(CommandError::config(format!(
                "the key {key} lies in the workspace, where the agent could sign with it"
            ))
            .hinted("set XDG_CONFIG_HOME to a folder outside of the workspace"));
        }
        let problem = |text: String| {
            CommandError::config(format!("{}: {text}", self.private.display()))
                .hinted("move the file away; `ralph-orchestrator receipt key` makes another one")
        };
        let bytes =
            read_if_exists(&self.private, LONGEST).map_err(|error| problem(error.to_string()))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|error| problem(error.to_string()))?;
        SigningKey::from_pem(&text).map(Some).map_err(|error| problem(error.to_string()))
    }

    /// Returns the key, and makes one if there is none yet. Returns whether it did.
    ///
    /// # Errors
    /// As of [`load`](Self::load), or it cannot be written.
    pub fn load_or_create(&self, workspace: &Path) -> Result<(SigningKey, bool), CommandError> {
        if let Some(key) = self.load(workspace)? {
            return Ok((key, false));
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| CommandError::internal(error.to_string()))?;
        let key = SigningKey::from_seed(&seed);
        if let Some(folder) = self.private.parent() {
            fs::create_dir_all(folder)?;
        }
        Disk::default().write_private(&self.private, key.to_pem().as_bytes())?;
        Disk::default().write_atomically(&self.public, key.public().to_pem().as_bytes(), 0o644)?;
        Ok((key, true))
    }

    /// Returns the user's own public key, if there is one.
    pub fn public(&self) -> Option<PublicKey> {
        read_public_key(&self.public).ok()
    }
}

/// Reads a public key.
///
/// # Errors
/// There is none in the file.
pub fn read_public_key(path: &Path) -> Result<PublicKey, CommandError> {
    let problem = |text: String| CommandError::user(format!("{}: {text}", path.display()));
    let bytes = read_file(path, LONGEST, SymlinkPolicy::Follow)
        .map_err(|error| problem(error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    PublicKey::from_pem(&text).map_err(|error| problem(error.to_string()))
}

/// Where the receipt of a run is.
pub fn receipt_path(layout: &Layout, run: &str) -> PathBuf {
    layout.run(run).join("receipt.json")
}

/// Writes the receipt of a completed run if the user has a key. Returns where it is.
///
/// # Errors
/// It cannot be made or written; the run is complete all the same.
fn write_if_wanted(
    context: &Context,
    layout: &Layout,
    found: &StoredRun,
) -> Result<Option<PathBuf>, CommandError> {
    let workspace = &context.loaded.config.run.workspace;
    let is_proved = found.state.completion().is_some_and(|completion| completion.validated);
    let Some(key) = KeyFiles::new(&context.vars).load(workspace)?.filter(|_| is_proved) else {
        return Ok(None);
    };
    let path = receipt_path(layout, &found.run);
    let text = sign(&statement(context, layout, found)?, &key)?;
    Disk::default().write_private(&path, text.as_bytes())?;
    Ok(Some(path))
}

/// The same after a run has ended, if that completed it. What goes wrong is returned as a warning.
pub fn write_after(
    context: &Context,
    layout: &Layout,
    finished: &Finished,
) -> Result<Option<PathBuf>, String> {
    if finished.reason != StopReason::Completed {
        return Ok(None);
    }
    let found = read_run(layout, &finished.run, |_| {}).map_err(CommandError::from);
    let written = found.and_then(|run| write_if_wanted(context, layout, &run.found));
    written.map_err(|error| format!("warning: no receipt was written: {}", error.summary()))
}

/// Returns the receipt as it is stored and passed on.
pub fn sign(statement: &Statement, key: &SigningKey) -> Result<String, CommandError> {
    let envelope = Envelope::sign(statement, key).map_err(CommandError::internal)?;
    envelope.to_json().map_err(CommandError::internal)
}

/// Returns what can be stated about a run.
///
/// # Errors
/// It is not complete, or no validator has accepted it.
pub fn statement(
    context: &Context,
    layout: &Layout,
    found: &StoredRun,
) -> Result<Statement, CommandError> {
    let state = &found.state;
    let Some(completed) = state.completion() else {
        return Err(CommandError::user(format!("run {} is not complete", found.run))
            .hinted("there are receipts of accepted work only"));
    };
    let definitions = definitions(&frozen_table(layout, &found.run)?);
    let validators = completed.verdicts.iter().map(|verdict| ValidatorStatement {
        name: verdict.validator.clone(),
        required: verdict.required,
        definition: definitions.get(&verdict.validator).cloned().unwrap_or_default(),
        verdict: acceptance(verdict),
    });
    let evidence = completed.evidence.iter().map(|file| EvidenceDigest {
        path: escape(&file.path),
        bytes: file.bytes,
        blake3: file.digest.clone(),
    });
    let tokens = state.tokens();
    let completion = Completion {
        run: found.run.clone(),
        task: completed.task.clone(),
        started: found.started.map(|time| time.to_string()),
        completed: found.ended.map(|time| time.to_string()),
        iterations: state.iterations,
        rejections: u64::from(state.validation.rejections),
        accepted_before: state.validation.baseline_accepted,
        agent: state.agent.name.clone(),
        model: state.agent.reported_model.clone(),
        orchestrator: env!("CARGO_PKG_VERSION").to_owned(),
        cost_usd: state.budget.cost_reported.then(|| state.cost().dollars()),
        tokens: TokenCounts {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
        },
        policy: completed.policy.clone(),
        validators: validators.collect(),
        artefacts: state.workspace.artefacts.iter().cloned().collect(),
        evidence: evidence.collect(),
        journal: journal_head(layout, &found.run)?,
    };
    let completion = Redactor::new(&context.loaded.config.env, &context.vars).redact(completion);
    let digest = BTreeMap::from([(TREE.to_owned(), completed.tree.clone())]);
    let subject = vec![Subject { name: "workspace".to_owned(), digest }];
    Statement::new(subject, completion)
        .map_err(|error| CommandError::user(format!("run {} has no receipt: {error}", found.run)))
}

fn acceptance(verdict: &ValidatorVerdict) -> Acceptance {
    match &verdict.verdict {
        Verdict::Accepted { summary, .. } => Acceptance::Accepted { summary: summary.clone() },
        Verdict::Rejected { reasons } => Acceptance::NotAccepted { reason: reasons.join("; ") },
        Verdict::Error { message } => Acceptance::NotAccepted { reason: message.clone() },
    }
}

/// The configuration that a run began with.
fn frozen_table(layout: &Layout, run: &str) -> Result<Table, CommandError> {
    let text =
        read_run_config(layout, run).map_err(|error| CommandError::internal(error.to_string()))?;
    text.parse().map_err(|error: toml::de::Error| {
        CommandError::internal(format!("{}: {error}", layout.config(run).display()))
    })
}

/// Returns the tables of the validators in a configuration, by name.
pub fn definitions(table: &Table) -> BTreeMap<String, Value> {
    let tables = table.get("validator").and_then(toml::Value::as_array).into_iter().flatten();
    let named = tables.filter_map(|table| {
        let name = table.get("name").or_else(|| table.get("kind"))?.as_str()?;
        Some((name.to_owned(), serde_json::to_value(table).ok()?))
    });
    named.collect()
}

fn journal_head(layout: &Layout, run: &str) -> Result<JournalHead, CommandError> {
    let path = layout.journal(run);
    let bytes = read_file(&path, LONGEST_JOURNAL, SymlinkPolicy::Refuse)
        .map_err(|error| CommandError::internal(format!("{}: {error}", path.display())))?;
    let records = bytes.iter().filter(|byte| **byte == b'\n').count();
    Ok(JournalHead {
        records: u64::try_from(records).unwrap_or(u64::MAX),
        sha256: data_encoding::HEXLOWER.encode(&Sha256::digest(&bytes)),
    })
}
