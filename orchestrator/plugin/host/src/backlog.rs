//! Formats of backlogs of plugins. One session serves all calls, and is restarted when it closes.
//!
//! A backlog is read and written by code that blocks, on threads that may belong to any runtime or to
//! none. So the session has a runtime of its own, and callers wait for it on a channel.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use ralph_orchestrator_contract::{
    BacklogEdit, BacklogFormat, BacklogItem, BuildContext, FactoryError, FormatDescription,
    FormatError,
};
use ralph_orchestrator_plugin_protocol::{Answer, ItemKind, Method, Provided};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::plugin::{Instance, InstanceRequest, Plugin, disconnect};
use crate::process::{Connection, PluginProcess, Shutdown};

/// The time that a format has to answer a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of the process is waited for when the format is no longer used.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A format of a plugin.
struct PluginFormat {
    description: FormatDescription,
    server: Arc<FormatServer>,
    /// `None` once it is shut down.
    runtime: Option<Runtime>,
}

/// Makes the calls, on the runtime of the format.
struct FormatServer {
    plugin: Arc<Plugin>,
    supervisor: Supervisor,
    request: InstanceRequest,
    connected: tokio::sync::Mutex<Option<Connected>>,
}

/// The process of the format and its instance.
struct Connected {
    process: PluginProcess,
    instance: Instance,
}

impl Plugin {
    /// Builds the format of backlogs `member`, or the only one. `supervisor` starts its process.
    ///
    /// # Errors
    /// The plugin does not work, provides no such format, or rejects the table.
    pub async fn backlog(
        self: &Arc<Self>,
        member: Option<&str>,
        table: Value,
        context: &BuildContext,
        supervisor: &Supervisor,
    ) -> Result<Box<dyn BacklogFormat>, FactoryError> {
        let request = InstanceRequest::new(ItemKind::Backlog, member, table, context);
        let Provided::Backlog(description) = self.describe(supervisor, &request).await? else {
            return Err(self.unavailable("it does not provide a format of backlogs"));
        };
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("backlog-plugin").enable_all().build();
        let runtime = runtime.map_err(|error| {
            self.unavailable(&format!("no thread for it could be started: {error}"))
        })?;
        let server = Arc::new(FormatServer {
            plugin: Arc::clone(self),
            supervisor: supervisor.clone(),
            request,
            connected: tokio::sync::Mutex::default(),
        });
        Ok(Box::new(PluginFormat { description, server, runtime: Some(runtime) }))
    }
}

impl BacklogFormat for PluginFormat {
    fn describe(&self) -> FormatDescription {
        self.description.clone()
    }

    fn read(&self, text: &str) -> Result<Vec<BacklogItem>, FormatError> {
        match self.call(Method::ReadBacklog { text: text.to_owned() })? {
            Answer::Backlog(read) => read.into_items(),
            _ => Err(self.failed("it returned no items")),
        }
    }

    fn edit(&self, text: &str, edits: &[BacklogEdit]) -> Result<String, FormatError> {
        let method = Method::EditBacklog { text: text.to_owned(), edits: edits.to_vec() };
        match self.call(method)? {
            Answer::Edited(edited) => edited.into_text(),
            _ => Err(self.failed("it returned no text")),
        }
    }
}

impl PluginFormat {
    fn failed(&self, why: &str) -> FormatError {
        FormatError::Failed(self.server.plugin.describe_error(why))
    }

    /// Makes a call, and waits for its answer on this thread.
    fn call(&self, method: Method) -> Result<Answer, FormatError> {
        let server = Arc::clone(&self.server);
        let answer = self.spawn(async move { server.call(method).await });
        let answer = answer.and_then(|answer| answer.recv().ok());
        let closed = || Err("its session was closed".to_owned());
        answer.unwrap_or_else(closed).map_err(|why| self.failed(&why))
    }

    /// Runs work on the runtime of the format. Returns where its result arrives.
    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<Receiver<T>> {
        let (result_tx, result_rx) = sync_channel(1);
        self.runtime.as_ref()?.spawn(async move {
            let result = work.await;
            drop(result_tx.send(result));
        });
        Some(result_rx)
    }
}

impl Drop for PluginFormat {
    /// Ends the process, and waits for that: what it leaves must not outlive the backlog.
    fn drop(&mut self) {
        let server = Arc::clone(&self.server);
        if let Some(ended) = self.spawn(async move { server.end().await }) {
            let _ = ended.recv_timeout(END_TIMEOUT);
        }
        if let Some(runtime) = self.runtime.take() {
            // This thread may be one of another runtime, where nothing may wait for a runtime's end.
            runtime.shutdown_background();
        }
    }
}

impl FormatServer {
    async fn call(&self, method: Method) -> Result<Answer, String> {
        self.instance().await?.call_within(method, CALL_TIMEOUT).await
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
            disconnect(process, Some(&*instance.session), Shutdown::Kill).await;
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

    async fn end(&self) {
        if let Some(Connected { process, instance }) = self.connected.lock().await.take() {
            disconnect(process, Some(&*instance.session), Shutdown::Kill).await;
        }
    }
}
