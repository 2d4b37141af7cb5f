//! The setup of a checkout: run before the first checks, whose products are kept, and again where its inputs differ.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_checkout::{KeptLayer, PreparedCheckout, StartRecord, Visibility};
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_machine::millis;
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use ralph_orchestrator_workspace::{TreeSnapshot, is_cache};

use super::blocking::blocking;
use super::checkout_policy::CheckoutSetup;
use super::error::EngineError;
use super::hidden_files::name_paths;
use super::session::Session;
use super::validation_task::{Selection, ValidationTask};
use crate::workspace_setup::SetupContext;

/// More of an input than this is not read: a file that changes beyond it does so before it as well.
const MAX_INPUT: usize = 64 * 1024 * 1024;

impl CheckoutSetup {
    /// Returns the digest of what it depends on, where `find` says that it is; `None` if it is to be run each time.
    fn digest_inputs(&self, find: impl Fn(&Path) -> Option<PathBuf>) -> Option<String> {
        if self.inputs.is_empty() {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        for input in &self.inputs {
            let found = find(input);
            let text = found.map(|path| read_file(&path, MAX_INPUT, SymlinkPolicy::Follow));
            let digest = match text {
                Some(Ok(text)) => blake3::hash(&text),
                Some(Err(error)) => blake3::hash(error.to_string().as_bytes()),
                None => blake3::Hash::from_bytes([0; 32]),
            };
            hasher.update(digest.as_bytes());
        }
        Some(hasher.finalize().to_hex().to_string())
    }

    /// Returns what it had made before the run, and a checkout does not have because it was changed or removed since: tools
    /// rewrite what is installed, such as the class map of Composer. What begins with a dot there is a cache.
    fn find_lost(&self, prepared: &PreparedCheckout, start: &StartRecord) -> Vec<PathBuf> {
        let is_output = |path: &Path| {
            let mut beneath =
                self.outputs.iter().filter_map(|output| path.strip_prefix(output).ok());
            beneath.any(|rest| !rest.iter().any(|name| is_cache(name) || is_dotted(name)))
        };
        let absent = prepared.hidden.iter().chain(&prepared.gone);
        absent.filter(|path| is_output(path) && start.had(path)).cloned().collect()
    }
}

fn is_dotted(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

impl Session {
    /// Returns the digest of the inputs if all that the setup makes is in the workspace.
    pub(super) fn find_installed(&self) -> Option<String> {
        let setup = self.context.policy.checkout.setup.as_ref()?;
        let workspace = &self.context.workspace;
        let is_there = |output: &PathBuf| workspace.join(output).exists();
        let is_installed = !setup.outputs.is_empty() && setup.outputs.iter().all(is_there);
        let find = |input: &Path| Some(workspace.join(input)).filter(|path| path.is_file());
        is_installed.then(|| setup.digest_inputs(find)).flatten()
    }
}

/// Whether the checks of a claim have the products of the first checks depends on how long those took: building anew what was
/// built in less time costs little, and a leftover cannot mislead.
const WORTH_KEEPING: Duration = Duration::from_secs(3);

/// A checkout, if checks do not run in the workspace, and the verdict on whatever is checked if it could not be set up.
type ReadyCheckout = (Option<Arc<PreparedCheckout>>, Result<(), Verdict>);

impl ValidationTask {
    /// Makes the layers in which checks run, and sets up what they need; `None` if it was cancelled.
    pub(super) async fn begin_checks(
        &self,
        counted: &Arc<TreeSnapshot>,
        visibility: Visibility,
    ) -> Result<Option<ReadyCheckout>, EngineError> {
        let Some(prepared) = self.prepare_checkout(counted, visibility).await? else {
            return Ok(Some((None, Ok(()))));
        };
        let Some(done) = self.set_up_checkout(&prepared).await? else { return Ok(None) };
        let made = match done {
            Ok(made) => made.filter(|_| self.is_before_work()),
            Err(verdict) => return Ok(Some((Some(prepared), Err(verdict)))),
        };
        let (Some(known), Some(inputs)) = (&self.checkout, made) else {
            return Ok(Some((Some(prepared), Ok(()))));
        };
        known.record_setup(Some(inputs));
        let (checkout, is_undone) = (Arc::clone(&known.checkout), self.undone_test(counted));
        blocking(move || checkout.keep(KeptLayer::Setup, &prepared, &is_undone)).await??;
        Ok(Some((self.prepare_checkout(counted, visibility).await?, Ok(()))))
    }

    /// Keeps what checks of later claims need of the first checks: what was there that they wrote to, and, if they took that
    /// long, what they wrote.
    pub(super) async fn keep_base(
        &self,
        counted: &Arc<TreeSnapshot>,
        (prepared, took): (Arc<PreparedCheckout>, Duration),
    ) -> Result<(), EngineError> {
        let Some(known) = self.checkout.as_ref().filter(|_| self.is_before_work()) else {
            return Ok(());
        };
        let (checkout, is_undone) = (Arc::clone(&known.checkout), self.undone_test(counted));
        let is_work = self.work_test(counted);
        let keep = move || {
            checkout.keep(KeptLayer::Before, &prepared, &is_work)?;
            match took < WORTH_KEEPING {
                true => Ok(()),
                false => checkout.keep(KeptLayer::Base, &prepared, &is_undone),
            }
        };
        Ok(blocking(keep).await??)
    }

    /// Whether what is written can be trusted: no agent has worked yet.
    pub(super) fn is_before_work(&self) -> bool {
        self.selection == Selection::RequiredChecks && self.iteration == 0
    }

    /// Returns what tells what no later checkout has of what was written before.
    fn undone_test(&self, counted: &Arc<TreeSnapshot>) -> impl Fn(&Path) -> bool + Send + use<> {
        let (is_work, policy) = (self.work_test(counted), Arc::clone(&self.policy));
        move |path| is_work(path) || policy.protected.contains(path)
    }

    /// Runs the setup in a checkout that has not what it makes. Returns the digest of the inputs for which it has made that now,
    /// if it is right as long as they are the same, or the verdict on what is to be checked there if it fails; `None` if it was
    /// cancelled.
    pub(super) async fn set_up_checkout(
        &self,
        prepared: &PreparedCheckout,
    ) -> Result<Option<Result<Option<String>, Verdict>>, EngineError> {
        let (Some(setup), Some(known)) = (&self.policy.checkout.setup, &self.checkout) else {
            return Ok(Some(Ok(None)));
        };
        if prepared.has_lost_setup {
            known.record_setup(None);
        }
        let inputs = setup.digest_inputs(|input| prepared.find_seen(input));
        let lost = setup.find_lost(prepared, known.checkout.start());
        let is_installed = inputs == known.installed && lost.is_empty();
        if inputs.is_some() && (inputs == known.set_up() || is_installed) {
            return Ok(Some(Ok(None)));
        }
        let context = SetupContext {
            run: &self.run,
            iteration: self.iteration,
            workspace: &self.workspace,
            checkout: &prepared.overlays,
            env: &self.env,
        };
        let until_ms = self.clock.runtime_ms().saturating_add(millis(setup.timeout));
        let end = self.wait_end(until_ms, setup.timeout);
        let done = setup.run(context, end).await;
        let before = known.set_up().or_else(|| known.installed.clone());
        // With what was there before somebody changed it, it worked.
        let changed = if before.is_none() || inputs.is_none() {
            None
        } else if before != inputs {
            Some(name_paths(&setup.inputs))
        } else {
            Some(name_paths(&lost)).filter(|_| !lost.is_empty())
        };
        Ok(done.map(|done| match (done, changed) {
            (Ok(()), _) => Ok(inputs),
            (Err(message), Some(changed)) => Err(Verdict::rejected(format!(
                "{message}\nIt is run since one of these was changed: {changed}"
            ))),
            (Err(message), None) => Err(Verdict::Error { message }),
        }))
    }
}
