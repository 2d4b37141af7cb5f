//! Validators of plugins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    BuildContext, CancelReason, CancelSignal, EvidenceValidator, FactoryError, Leftovers,
    NeverCancelled, Setup, SetupProblem, ValidationContext, ValidatorDescription, Verdict,
};
use ralph_orchestrator_plugin_protocol::{
    Answer, ItemKind, Method, Provided, ValidatorDetails, feature,
};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;
use tokio::time::timeout;

use crate::agent::cancel_ignored;
use crate::call::CallHandle;
use crate::call_event::{CallEvent, CallOutcome, failure_message};
use crate::plugin::{Instance, InstanceRequest, Plugin, disconnect};
use crate::process::{Connection, Shutdown};
use crate::session::Session;

/// The time that a validator has to end after it was cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// The time that a validator has to answer `check`.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// A validator of a plugin.
struct PluginValidator {
    plugin: Arc<Plugin>,
    supervisor: Supervisor,
    request: InstanceRequest,
    details: ValidatorDetails,
}

impl Plugin {
    /// Builds the validator `member`, or the only one. `supervisor` starts its processes.
    ///
    /// # Errors
    /// The plugin does not work, provides no such validator, or rejects the table.
    pub async fn validator(
        self: &Arc<Self>,
        member: Option<&str>,
        table: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn EvidenceValidator>, FactoryError> {
        let request = InstanceRequest::new(ItemKind::Validator, member, table, context);
        let Provided::Validator(mut details) = self.describe(supervisor, &request).await? else {
            return Err(self.unavailable("it does not provide a validator"));
        };
        for (what, paths) in
            [("evidence folder", &details.evidence_dirs), ("outside file", &details.outside_files)]
        {
            if let Some(relative) = paths.iter().find(|path| !path.is_absolute()) {
                let why = format!("its {what} {} is not absolute", relative.display());
                return Err(self.unavailable(&why));
            }
        }
        details.description.kind = self.qualified_name(member);
        Ok(Box::new(PluginValidator {
            plugin: Arc::clone(self),
            supervisor: supervisor.clone(),
            request,
            details,
        }))
    }
}

#[async_trait]
impl EvidenceValidator for PluginValidator {
    fn describe(&self) -> ValidatorDescription {
        self.details.description.clone()
    }

    fn evidence_dirs(&self) -> Vec<PathBuf> {
        self.details.evidence_dirs.clone()
    }

    fn protects(&self) -> Vec<String> {
        self.details.protects.clone()
    }

    fn reserved_paths(&self) -> Vec<String> {
        self.details.reserved_paths.clone()
    }

    fn outside_files(&self) -> Vec<PathBuf> {
        self.details.outside_files.clone()
    }

    fn passed_paths(&self) -> Vec<PathBuf> {
        self.details.passed_paths.clone()
    }

    fn is_read_only(&self) -> bool {
        self.details.read_only
    }

    fn passes_required(&self) -> u32 {
        self.details.passes_required
    }

    fn runs_check(&self) -> bool {
        self.details.runs_check
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<(), String> {
        let method = Method::Check { env: env.clone() };
        let call = self.call(method, env.clone(), &NeverCancelled);
        match timeout(self.plugin.patience(CHECK_TIMEOUT), call).await {
            Ok(answer) => answer.map(drop),
            Err(_) => {
                let why = format!("no reply to `check` within {} s", CHECK_TIMEOUT.as_secs());
                Err(self.plugin.describe_error(&why))
            }
        }
    }

    async fn find_setup_problems(&self, setup: Setup<'_>) -> Vec<SetupProblem> {
        let fatal = |message| vec![SetupProblem { key: Vec::new(), message, is_fatal: true }];
        let (workspace, env) = (setup.workspace.to_owned(), setup.env.clone());
        let method = Method::FindSetupProblems { workspace, env };
        let call = self.call_if(
            |session| session.has_feature(feature::SETUP_PROBLEMS),
            method,
            setup.env.clone(),
            CallContext { cancel: &NeverCancelled, is_protected: setup.is_protected },
        );
        match timeout(self.plugin.patience(CHECK_TIMEOUT), call).await {
            Ok(Ok(Some(Answer::SetupProblems(problems)))) => problems,
            Ok(Ok(Some(_))) => fatal(self.plugin.describe_error("it returned no problems")),
            // It knows only whether it could work at all.
            Ok(Ok(None)) => self.check(setup.env).await.err().map(fatal).unwrap_or_default(),
            Ok(Err(message)) => fatal(message),
            Err(_) => {
                let seconds = CHECK_TIMEOUT.as_secs();
                let why = format!("no reply to `find_setup_problems` within {seconds} s");
                fatal(self.plugin.describe_error(&why))
            }
        }
    }

    async fn validate(&self, context: ValidationContext<'_>, cancel: &dyn CancelSignal) -> Verdict {
        let mut env = context.env.clone();
        env.entry("RALPH_RUN_ID".to_owned()).or_insert_with(|| context.run.to_owned());
        env.entry("RALPH_ITERATION".to_owned()).or_insert_with(|| context.iteration.to_string());
        let method = Method::Validate { context: context.into() };
        match self.call(method, env, cancel).await {
            Ok(Answer::Verdict(Verdict::Rejected { reasons })) if reasons.is_empty() => {
                Verdict::Error {
                    message: self.plugin.describe_error("it rejected without a reason"),
                }
            }
            Ok(Answer::Verdict(verdict)) => verdict,
            Ok(_) => {
                Verdict::Error { message: self.plugin.describe_error("it returned no verdict") }
            }
            Err(message) => Verdict::Error { message },
        }
    }
}

/// What a call of a validator may need while it goes on.
#[derive(Clone, Copy)]
struct CallContext<'a> {
    cancel: &'a dyn CancelSignal,
    /// Answers a question about a path of the workspace.
    is_protected: &'a (dyn Fn(&Path) -> bool + Sync),
}

impl PluginValidator {
    /// Makes one call, in a session of its own.
    async fn call(
        &self,
        method: Method,
        env: BTreeMap<String, String>,
        cancel: &dyn CancelSignal,
    ) -> Result<Answer, String> {
        let context = CallContext { cancel, is_protected: &|_| false };
        let answer = self.call_if(|_| true, method, env, context).await?;
        answer.ok_or_else(|| self.plugin.describe_error("it has not been asked"))
    }

    /// Makes one call, in a session of its own, unless the plugin cannot answer it.
    async fn call_if(
        &self,
        is_known: impl Fn(&Session) -> bool + Send,
        method: Method,
        env: BTreeMap<String, String>,
        context: CallContext<'_>,
    ) -> Result<Option<Answer>, String> {
        let describe = |why: String| self.plugin.describe_error(&why);
        self.plugin.verify().await.map_err(describe)?;
        let connection = self.plugin.connect(&self.supervisor, &env).await;
        let Connection { process, transport, inbound } = connection.map_err(describe)?;
        let opening = self.plugin.open_instance((transport, inbound), &self.request);
        let instance = tokio::select! {
            biased;
            reason = context.cancel.cancelled() => Err(cancelled(reason)),
            instance = opening => instance.map_err(|error| error.to_string()),
        };
        let (result, shutdown) = match &instance {
            Ok(instance) if is_known(&instance.session) => {
                let (result, shutdown) = call_instance(instance, method, context).await;
                (result.map(Some), shutdown)
            }
            Ok(_) => (Ok(None), Shutdown::Graceful),
            Err(why) => (Err(why.clone()), Shutdown::Kill),
        };
        let session = instance.as_ref().ok().map(|instance| &*instance.session);
        let exit = disconnect(process, session, shutdown).await;
        match Leftovers::new(Vec::new(), exit.survived).complaint() {
            // A survivor may change what was validated.
            Some(complaint) => Err(describe(complaint)),
            None => result.map_err(describe),
        }
    }
}

/// Makes the call. Returns the result, and how to end the process.
async fn call_instance(
    instance: &Instance,
    method: Method,
    context: CallContext<'_>,
) -> (Result<Answer, String>, Shutdown) {
    let mut call = match instance.session.call(instance.id, method).await {
        Ok(call) => call,
        Err(closed) => return (Err(closed.0), Shutdown::Kill),
    };
    let outcome = tokio::select! {
        biased;
        reason = context.cancel.cancelled() => {
            call.cancel(reason, CANCEL_GRACE);
            let why = cancelled(reason);
            return match timeout(CANCEL_GRACE, call.outcome()).await {
                Ok(CallOutcome::SessionClosed(_)) => (Err(why), Shutdown::Kill),
                Ok(_) => (Err(why), Shutdown::Graceful),
                Err(_) => {
                    let ignored = cancel_ignored(CANCEL_GRACE);
                    (Err(format!("{why}; {ignored}")), Shutdown::Terminate)
                }
            };
        }
        outcome = answer_questions(&mut call, context.is_protected) => outcome,
    };
    match outcome {
        CallOutcome::Done(answer) => (Ok(answer), Shutdown::Graceful),
        CallOutcome::SessionClosed(why) => (Err(why), Shutdown::Kill),
        outcome => (Err(failure_message(outcome)), Shutdown::Graceful),
    }
}

/// Waits for the outcome of a call, and answers what the plugin asks meanwhile.
async fn answer_questions(
    call: &mut CallHandle,
    is_protected: &(dyn Fn(&Path) -> bool + Sync),
) -> CallOutcome {
    loop {
        match call.next_event().await {
            CallEvent::Ended(outcome) => return outcome,
            CallEvent::WriteCheckRequested { request, path } => {
                call.send_write_check(request, is_protected(&path));
            }
            _ => {}
        }
    }
}

fn cancelled(reason: CancelReason) -> String {
    let why = match reason {
        CancelReason::Timeout => "its timeout expired",
        reason => reason.because(),
    };
    format!("it was cancelled: {why}")
}
