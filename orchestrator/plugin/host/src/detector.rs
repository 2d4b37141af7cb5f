//! Detectors of plugins: one conversation is kept, and begun anew when it broke.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use plugin_protocol::{Answer, DetectorDescription, ItemKind, Method, Provided};
use ralph_orchestrator_contract::{
    BuildContext, BuildError, Claim, CompletionDetector, Event, Findings, Leftovers, View,
};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;
use tokio::time::timeout;

use crate::agent::broke;
use crate::plugin::{Entered, Plugin, Request, Seat, leave};
use crate::process::{End, PluginProcess};
use crate::talk::Outcome;

/// How long a detector may take for one look.
const LOOK: Duration = Duration::from_secs(30);

/// A detector of a plugin.
struct PluginDetector {
    plugin: Arc<Plugin>,
    supervisor: Supervisor,
    request: Request,
    name: String,
    description: DetectorDescription,
    live: tokio::sync::Mutex<Option<Live>>,
    /// What went wrong while the agent worked, to be told at the next look.
    troubles: Mutex<Vec<String>>,
}

/// The conversation that is kept.
struct Live {
    seat: Seat,
    process: Option<PluginProcess>,
}

impl Plugin {
    /// Builds the detector `member`, or the only one. Its process is started by `supervisor`.
    ///
    /// # Errors
    /// The plugin cannot be talked to, provides no such detector, or refuses the table.
    pub async fn detector(
        self: &Arc<Self>,
        member: Option<&str>,
        table: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn CompletionDetector>, BuildError> {
        let request = Request {
            kind: ItemKind::Detector,
            member: member.map(str::to_owned),
            table,
            context: context.clone(),
        };
        let Provided::Detector(description) = self.describe(supervisor, &request).await? else {
            let why = self.says("it provides something else than a detector");
            return Err(BuildError::at("", why));
        };
        Ok(Box::new(PluginDetector {
            plugin: Arc::clone(self),
            supervisor: supervisor.clone(),
            request,
            name: self.called(member),
            description,
            live: tokio::sync::Mutex::default(),
            troubles: Mutex::default(),
        }))
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
        match self.ask(Method::Observe { event: event.clone() }).await {
            Ok(Answer::Claims(claims)) => self.own(claims),
            Ok(_) => Vec::new(),
            Err(why) => {
                self.trouble(&why);
                Vec::new()
            }
        }
    }

    async fn inspect(&self, view: View<'_>) -> Findings {
        let answer = self.ask(Method::Inspect { view: view.into() }).await;
        let mut findings = match answer {
            Ok(Answer::Findings(findings)) => findings,
            Ok(_) => Findings::default(),
            Err(why) => {
                self.trouble(&why);
                Findings::default()
            }
        };
        findings.claims = self.own(findings.claims);
        for miss in &mut findings.near_misses {
            miss.detector.clone_from(&self.name);
        }
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        findings.warnings.append(&mut troubles);
        findings
    }

    async fn strip_claims<'a>(&self, prompt: &'a str) -> Cow<'a, str> {
        if !self.description.strips {
            return Cow::Borrowed(prompt);
        }
        match self.ask(Method::StripClaims { prompt: prompt.to_owned() }).await {
            Ok(Answer::Text(text)) => Cow::Owned(text),
            Ok(_) => Cow::Borrowed(prompt),
            Err(why) => {
                self.trouble(&why);
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
    /// Whatever it says, its claims are its own.
    fn own(&self, claims: Vec<Claim>) -> Vec<Claim> {
        let own = |claim| Claim { detector: self.name.clone(), ..claim };
        claims.into_iter().map(own).collect()
    }

    /// The same trouble is told once.
    fn trouble(&self, why: &str) {
        let message = format!("{}; it found no claims", self.plugin.says(why));
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if !troubles.contains(&message) {
            troubles.push(message);
        }
    }

    async fn ask(&self, method: Method) -> Result<Answer, String> {
        let seat = self.seat().await?;
        let call = seat.session.call(seat.instance, method);
        let answered =
            async { Ok::<_, String>(call.await.map_err(|broken| broken.0)?.outcome().await) };
        match timeout(LOOK, answered).await {
            Ok(Ok(Outcome::Done(answer))) => Ok(answer),
            Ok(Ok(outcome)) => Err(broke(outcome)),
            Ok(Err(why)) => Err(why),
            Err(_) => {
                let why = format!("it did not answer within {} s", LOOK.as_secs());
                // In this process too: nobody knows what it is still at.
                seat.session.give_up(&why);
                Err(why)
            }
        }
    }

    /// The conversation, begun anew if there is none any more.
    async fn seat(&self) -> Result<Seat, String> {
        let mut live = self.live.lock().await;
        if let Some(Live { seat, .. }) = &*live
            && seat.session.broken().is_none()
        {
            return Ok(seat.clone());
        }
        if let Some(Live { process, seat }) = live.take() {
            let exit = leave(process, Some(&*seat.session), End::Kill).await;
            let survived = exit.into_iter().flat_map(|exit| exit.survived);
            if let Some(complaint) = Leftovers::new(Vec::new(), survived).complaint() {
                self.trouble(&complaint);
            }
        }
        self.plugin.verify().await?;
        let entered = self.plugin.enter(&self.supervisor, self.plugin.env()).await;
        let Entered { process, way } = entered?;
        match self.plugin.sit(way, &self.request).await {
            Ok(seat) => {
                *live = Some(Live { seat: seat.clone(), process });
                Ok(seat)
            }
            Err(error) => {
                leave(process, None, End::Kill).await;
                Err(error.to_string())
            }
        }
    }
}
