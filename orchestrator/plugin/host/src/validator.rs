//! Validators of plugins.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use plugin_protocol::{Answer, ItemKind, Method, Provided, ValidatorOpened};
use ralph_orchestrator_contract::{
    BuildContext, BuildError, CancelReason, CancelSignal, EvidenceValidator, Leftovers,
    NeverCancelled, ValidationContext, ValidatorDescription, Verdict,
};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;
use tokio::time::timeout;

use crate::agent::broke;
use crate::plugin::{Entered, Plugin, Request, Seat, leave};
use crate::process::End;
use crate::talk::Outcome;

/// How long a validator may take to end when it was told to.
const GRACE: Duration = Duration::from_secs(5);
/// How long a check may take.
const CHECK: Duration = Duration::from_secs(30);

/// A validator of a plugin.
struct PluginValidator {
    plugin: Arc<Plugin>,
    supervisor: Supervisor,
    request: Request,
    opened: ValidatorOpened,
    /// In this process: a call was given up, and may still go on.
    given_up: OnceLock<()>,
}

impl Plugin {
    /// Builds the validator `member`, or the only one. Its processes are started by `supervisor`.
    ///
    /// # Errors
    /// The plugin cannot be talked to, provides no such validator, or refuses the table.
    pub async fn validator(
        self: &Arc<Self>,
        member: Option<&str>,
        table: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn EvidenceValidator>, BuildError> {
        let request = Request {
            kind: ItemKind::Validator,
            member: member.map(str::to_owned),
            table,
            context: context.clone(),
        };
        let wrong = |why: &str| BuildError::at("", self.says(why));
        let Provided::Validator(mut opened) = self.describe(supervisor, &request).await? else {
            return Err(wrong("it provides something else than a validator"));
        };
        if let Some(relative) = opened.evidence_dirs.iter().find(|dir| !dir.is_absolute()) {
            let why = format!("its folder of evidence {} is not absolute", relative.display());
            return Err(wrong(&why));
        }
        opened.description.kind = self.called(member);
        Ok(Box::new(PluginValidator {
            plugin: Arc::clone(self),
            supervisor: supervisor.clone(),
            request,
            opened,
            given_up: OnceLock::new(),
        }))
    }
}

#[async_trait]
impl EvidenceValidator for PluginValidator {
    fn describe(&self) -> ValidatorDescription {
        self.opened.description.clone()
    }

    fn evidence_dirs(&self) -> Vec<PathBuf> {
        self.opened.evidence_dirs.clone()
    }

    fn protects(&self) -> Vec<String> {
        self.opened.protects.clone()
    }

    fn is_read_only(&self) -> bool {
        self.opened.read_only
    }

    fn passes_required(&self) -> u32 {
        self.opened.passes_required
    }

    fn runs_check(&self) -> bool {
        self.opened.runs_check
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<(), String> {
        let method = Method::Check { env: env.clone() };
        let answered = self.ask(method, env.clone(), &NeverCancelled);
        match timeout(CHECK, answered).await {
            Ok(answer) => answer.map(drop),
            Err(_) => {
                let why = format!("it did not answer `check` within {} s", CHECK.as_secs());
                Err(self.plugin.says(&why))
            }
        }
    }

    async fn validate(&self, context: ValidationContext<'_>, cancel: &dyn CancelSignal) -> Verdict {
        let mut env = context.env.clone();
        env.entry("RALPH_RUN_ID".to_owned()).or_insert_with(|| context.run.to_owned());
        env.entry("RALPH_ITERATION".to_owned()).or_insert_with(|| context.iteration.to_string());
        let method = Method::Validate { context: context.into() };
        match self.ask(method, env, cancel).await {
            Ok(Answer::Verdict(Verdict::Rejected { reasons })) if reasons.is_empty() => {
                Verdict::Error { message: self.plugin.says("it rejected without a reason") }
            }
            Ok(Answer::Verdict(verdict)) => verdict,
            Ok(_) => Verdict::Error { message: self.plugin.says("it gave no verdict") },
            Err(message) => Verdict::Error { message },
        }
    }
}

impl PluginValidator {
    /// One call, in a conversation of its own.
    async fn ask(
        &self,
        method: Method,
        env: BTreeMap<String, String>,
        cancel: &dyn CancelSignal,
    ) -> Result<Answer, String> {
        let says = |why: String| self.plugin.says(&why);
        if self.given_up.get().is_some() {
            return Err(says("a call of it was given up and may still go on".to_owned()));
        }
        self.plugin.verify().await.map_err(says)?;
        let entered = self.plugin.enter(&self.supervisor, &env).await;
        let Entered { process, way } = entered.map_err(says)?;
        let inside = process.is_none();
        let seat = tokio::select! {
            biased;
            reason = cancel.cancelled() => Err(ended(reason)),
            seat = self.plugin.sit(way, &self.request) => seat.map_err(|error| error.to_string()),
        };
        let (result, end) = match &seat {
            Ok(seat) => Self::call(seat, method, cancel).await,
            Err(why) => (Err(why.clone()), End::Kill),
        };
        if inside && end == End::Terminate {
            self.given_up.get_or_init(|| ());
        }
        let exit = leave(process, seat.as_ref().ok().map(|seat| &*seat.session), end).await;
        match exit.and_then(|exit| Leftovers::new(Vec::new(), exit.survived).complaint()) {
            // What lives on may change what was examined.
            Some(complaint) => Err(says(complaint)),
            None => result.map_err(says),
        }
    }

    async fn call(
        seat: &Seat,
        method: Method,
        cancel: &dyn CancelSignal,
    ) -> (Result<Answer, String>, End) {
        let mut call = match seat.session.call(seat.instance, method).await {
            Ok(call) => call,
            Err(broken) => return (Err(broken.0), End::Kill),
        };
        let outcome = tokio::select! {
            biased;
            reason = cancel.cancelled() => {
                call.cancel(reason, GRACE);
                let end = match timeout(GRACE, call.outcome()).await {
                    Ok(Outcome::Broken(_)) => End::Kill,
                    Ok(_) => End::Gently,
                    Err(_) => End::Terminate,
                };
                return (Err(ended(reason)), end);
            }
            outcome = call.outcome() => outcome,
        };
        match outcome {
            Outcome::Done(answer) => (Ok(answer), End::Gently),
            Outcome::Broken(why) => (Err(why), End::Kill),
            outcome => (Err(broke(outcome)), End::Gently),
        }
    }
}

fn ended(reason: CancelReason) -> String {
    let why = match reason {
        CancelReason::Timeout => "its time was up",
        reason => reason.because(),
    };
    format!("it was ended: {why}")
}
