//! Detectors of plugins. One session serves the whole run, and is restarted when it closes.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    BuildContext, Claim, CompletionDetector, DetectorInput, Event, FactoryError, Findings,
    Leftovers,
};
use ralph_orchestrator_plugin_protocol::{Answer, DetectorDescription, ItemKind, Method, Provided};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;

use crate::plugin::{Instance, InstanceRequest, Plugin, disconnect};
use crate::process::{Connection, PluginProcess, Shutdown};

/// The time that a detector has to answer a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A detector of a plugin.
struct PluginDetector {
    plugin: Arc<Plugin>,
    supervisor: Supervisor,
    request: InstanceRequest,
    name: String,
    description: DetectorDescription,
    connected: tokio::sync::Mutex<Option<Connected>>,
    /// Warnings for the next inspection.
    warnings: Mutex<Vec<String>>,
}

/// The detector's process and its instance.
struct Connected {
    process: PluginProcess,
    instance: Instance,
}

impl Plugin {
    /// Builds the detector `member`, or the only one. `supervisor` starts its process.
    ///
    /// # Errors
    /// The plugin does not work, provides no such detector, or rejects the table.
    pub async fn detector(
        self: &Arc<Self>,
        member: Option<&str>,
        table: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn CompletionDetector>, FactoryError> {
        let request = InstanceRequest::new(ItemKind::Detector, member, table, context);
        let Provided::Detector(description) = self.describe(supervisor, &request).await? else {
            return Err(self.unavailable("it does not provide a detector"));
        };
        Ok(Box::new(PluginDetector {
            plugin: Arc::clone(self),
            supervisor: supervisor.clone(),
            request,
            name: self.qualified_name(member),
            description,
            connected: tokio::sync::Mutex::default(),
            warnings: Mutex::default(),
        }))
    }
}

/// Closes the session of a call that is given up.
struct AbandonedSession<'a>(Option<&'a Instance>);

impl Drop for AbandonedSession<'_> {
    fn drop(&mut self) {
        if let Some(instance) = self.0 {
            instance.session.abort("it did not answer `observe`");
        }
    }
}

#[async_trait]
impl CompletionDetector for PluginDetector {
    fn name(&self) -> &str {
        &self.name
    }

    fn observes(&self) -> bool {
        self.description.observes
    }

    async fn observe(&self, event: &Event) -> Vec<Claim> {
        match self.ask_observer(Method::Observe { event: event.clone() }).await {
            Ok(Answer::Claims(claims)) => self.with_own_name(claims),
            Ok(_) => Vec::new(),
            Err(why) => {
                self.warn(&why);
                Vec::new()
            }
        }
    }

    async fn inspect(&self, input: DetectorInput<'_>) -> Findings {
        let answer = self.call(Method::Inspect { input: input.into() }).await;
        let mut findings = match answer {
            Ok(Answer::Findings(findings)) => findings,
            Ok(_) => Findings::default(),
            Err(why) => {
                self.warn(&why);
                Findings::default()
            }
        };
        findings.claims = self.with_own_name(findings.claims);
        for miss in &mut findings.near_misses {
            miss.detector.clone_from(&self.name);
        }
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.warnings.append(&mut warnings);
        findings
    }

    async fn strip_claims<'a>(&self, prompt: &'a str) -> Cow<'a, str> {
        if !self.description.strips {
            return Cow::Borrowed(prompt);
        }
        match self.call(Method::StripClaims { prompt: prompt.to_owned() }).await {
            Ok(Answer::Text(text)) => Cow::Owned(text),
            Ok(_) => Cow::Borrowed(prompt),
            Err(why) => {
                self.warn(&why);
                Cow::Borrowed(prompt)
            }
        }
    }

    fn instructions(&self) -> String {
        self.description.instructions.clone()
    }

    fn forms(&self) -> Vec<String> {
        self.description.forms.clone()
    }
}

impl PluginDetector {
    /// Sets the detector's name in claims, whatever the plugin wrote there.
    fn with_own_name(&self, claims: Vec<Claim>) -> Vec<Claim> {
        let rename = |claim| Claim { detector: self.name.clone(), ..claim };
        claims.into_iter().map(rename).collect()
    }

    fn warn(&self, why: &str) {
        self.add_warning(format!("{}; it found no claims", self.plugin.describe_error(why)));
    }

    /// Adds a warning, unless the same one is pending.
    fn add_warning(&self, message: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&message) {
            warnings.push(message);
        }
    }

    /// Calls a method whose answer may be given up. The plugin may then never answer anything again, so the next call is to
    /// another process.
    async fn ask_observer(&self, method: Method) -> Result<Answer, String> {
        let instance = self.instance().await?;
        let mut abandoned = AbandonedSession(Some(&instance));
        let answer = instance.call_within(method, CALL_TIMEOUT).await;
        abandoned.0 = None;
        self.take_warnings(&instance);
        answer
    }

    async fn call(&self, method: Method) -> Result<Answer, String> {
        let instance = self.instance().await?;
        let answer = instance.call_within(method, CALL_TIMEOUT).await;
        self.take_warnings(&instance);
        answer
    }

    /// Takes what was noticed in the session: there is no `run` that would report it.
    fn take_warnings(&self, instance: &Instance) {
        for message in instance.session.take_warnings() {
            self.add_warning(format!("{message} (the detector `{}`)", self.name));
        }
    }

    /// Returns the instance, in a new process if its session is closed.
    async fn instance(&self) -> Result<Instance, String> {
        let mut connected = self.connected.lock().await;
        if let Some(Connected { instance, .. }) = &*connected
            && instance.session.closed().is_none()
        {
            return Ok(instance.clone());
        }
        if let Some(Connected { process, instance }) = connected.take() {
            let exit = disconnect(process, Some(&*instance.session), Shutdown::Kill).await;
            if let Some(complaint) = Leftovers::new(Vec::new(), exit.survived).complaint() {
                self.warn(&complaint);
            }
        }
        self.plugin.verify().await?;
        let connection = self.plugin.connect(&self.supervisor, self.plugin.env()).await;
        let Connection { process, transport, inbound } = connection?;
        match self.plugin.open_instance((transport, inbound), &self.request).await {
            Ok(instance) => {
                *connected = Some(Connected { process, instance: instance.clone() });
                Ok(instance)
            }
            Err(error) => {
                disconnect(process, None, Shutdown::Kill).await;
                Err(error.to_string())
            }
        }
    }
}
