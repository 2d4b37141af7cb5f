//! A plugin of the configuration, and how sessions with it are started and ended.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ralph_orchestrator_contract::{BuildContext, FactoryError};
use ralph_orchestrator_plugin_protocol::{Answer, Item, ItemKind, Method, PluginHello, Provided};
use ralph_orchestrator_supervisor::{Exit, Grace, Spec, Supervisor};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::debug;

use crate::attached::{ATTACHED_DIGEST, AttachedPlugin};
use crate::call_event::{CallOutcome, failure_message};
use crate::frame_trace::FrameTrace;
use crate::library_cache::PrivateCopy;
use crate::manifest::Manifest;
use crate::process::{Connection, PluginProcess, Shutdown};
use crate::program::{Program, ProgramError};
use crate::remarks::PluginRemarks;
use crate::session::{OpenError, Session};
use crate::session_state::{SessionClosed, SessionOptions};
use crate::table_schema::check_table;
use crate::transport::{Inbound, Transport};

/// The running program, even if its file was replaced: a process resolves this path for itself.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The hidden command that runs a plugin library in its host process.
pub const HOST_COMMAND: &str = "plugin-host";

/// A plugin of the configuration.
pub struct Plugin {
    name: String,
    code: Code,
    /// The environment of processes that belong to no iteration.
    env: BTreeMap<String, String>,
    /// Descriptions of instances, by the key of their request.
    descriptions: Mutex<BTreeMap<String, Provided>>,
    remarks: Arc<PluginRemarks>,
    trace: OnceLock<FrameTrace>,
}

enum Code {
    Program(Program),
    Library(PrivateCopy),
    Attached(AttachedPlugin),
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({})", self.name)
    }
}

/// A request for an instance of one of the plugin's items.
#[derive(Clone, Debug)]
pub(crate) struct InstanceRequest {
    pub(crate) kind: ItemKind,
    /// `NAME` of `plugin/NAME`.
    pub(crate) member: Option<String>,
    pub(crate) table: Value,
    pub(crate) context: BuildContext,
}

/// An instance in an open session.
#[derive(Clone)]
pub(crate) struct Instance {
    pub(crate) session: Arc<Session>,
    pub(crate) id: u64,
    pub(crate) provided: Provided,
}

impl Instance {
    /// Makes a call, and waits for its answer. A plugin that does not answer in time loses its session.
    pub(crate) async fn call_within(
        &self,
        method: Method,
        limit: Duration,
    ) -> Result<Answer, String> {
        let call = self.session.call(self.id, method);
        let outcome =
            async { Ok::<_, String>(call.await.map_err(|closed| closed.0)?.outcome().await) };
        match timeout(self.session.patience(limit), outcome).await {
            Ok(Ok(CallOutcome::Done(answer))) => Ok(answer),
            Ok(Ok(outcome)) => Err(failure_message(outcome)),
            Ok(Err(why)) => Err(why),
            Err(_) => {
                let why = format!("no reply within {} s", limit.as_secs());
                self.session.abort(&why);
                Err(why)
            }
        }
    }
}

impl Plugin {
    /// Creates a plugin that is a program. Its command is looked up in `path`, or relative to `dir`,
    /// which is also its working directory.
    ///
    /// # Errors
    /// The program is missing, or its content does not match the `pinned` digest.
    pub fn program(
        name: &str,
        command: &[String],
        (dir, path): (&Path, &str),
        pinned: Option<&str>,
        env: BTreeMap<String, String>,
    ) -> Result<Self, ProgramError> {
        let program = Program::find(command, dir, path, pinned)?;
        Ok(Self::new(name, Code::Program(program), env))
    }

    /// Creates a plugin that is a library, from its private copy.
    #[must_use]
    pub fn library(name: &str, copy: PrivateCopy, env: BTreeMap<String, String>) -> Self {
        Self::new(name, Code::Library(copy), env)
    }

    /// Creates a plugin that is a program, which its author has started and which listens on this socket. It is not
    /// supervised, and waited for without an end.
    #[must_use]
    pub fn attached(name: &str, socket: &Path, env: BTreeMap<String, String>) -> Self {
        Self::new(name, Code::Attached(AttachedPlugin::new(socket)), env)
    }

    fn new(name: &str, code: Code, env: BTreeMap<String, String>) -> Self {
        let remarks = Arc::new(PluginRemarks::new(matches!(code, Code::Library(_))));
        let (name, descriptions) = (name.to_owned(), Mutex::default());
        Self { name, code, env, descriptions, remarks, trace: OnceLock::new() }
    }

    /// Returns its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the BLAKE3 digest, in hexadecimal, of the library, or of the command and the files that it
    /// names.
    #[must_use]
    pub fn digest(&self) -> &str {
        match &self.code {
            Code::Program(program) => program.digest(),
            Code::Library(copy) => copy.digest(),
            Code::Attached(_) => ATTACHED_DIGEST,
        }
    }

    /// Returns whether its author has started it.
    pub(crate) const fn is_attached(&self) -> bool {
        matches!(self.code, Code::Attached(_))
    }

    /// Returns how long is waited for something that may take so long.
    pub(crate) const fn patience(&self, limit: Duration) -> Duration {
        if self.is_attached() { Duration::MAX } else { limit }
    }

    /// Returns what is noticed in its sessions.
    #[must_use]
    pub const fn remarks(&self) -> &Arc<PluginRemarks> {
        &self.remarks
    }

    /// Gives `trace` what passes in sessions that are started from now on. Only the first call has an effect.
    pub fn trace_frames(&self, trace: FrameTrace) {
        drop(self.trace.set(trace));
    }

    /// Returns the manifest of a library.
    #[must_use]
    pub const fn manifest(&self) -> Option<&Manifest> {
        match &self.code {
            Code::Program(_) | Code::Attached(_) => None,
            Code::Library(copy) => Some(&copy.header().manifest),
        }
    }

    /// Returns the environment of its processes outside of iterations.
    pub(crate) const fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// Returns the name of an item, as in the configuration.
    pub(crate) fn qualified_name(&self, member: Option<&str>) -> String {
        member.map_or_else(|| self.name.clone(), |member| format!("{}/{member}", self.name))
    }

    /// Starts the plugin, exchanges `hello` and ends it. Returns the plugin's `hello`.
    ///
    /// # Errors
    /// It does not start, or does not send a valid `hello`.
    pub async fn probe(&self, supervisor: &Supervisor) -> Result<PluginHello, SessionClosed> {
        let connection = self.connect(supervisor, &self.env).await.map_err(SessionClosed)?;
        let Connection { process, transport, inbound } = connection;
        let session = self.start_session(transport, inbound).await;
        let hello = session.as_ref().map(|session| session.hello().clone()).map_err(Clone::clone);
        disconnect(process, session.as_ref().ok(), Shutdown::Graceful).await;
        hello
    }

    /// Prefixes a message about the plugin with its name.
    pub(crate) fn describe_error(&self, why: &str) -> String {
        format!("the plugin `{}`: {why}", self.name)
    }

    /// Returns that an item cannot be built since the plugin does not work.
    pub(crate) fn unavailable(&self, why: &str) -> FactoryError {
        FactoryError::Unavailable(self.describe_error(why))
    }

    /// Checks that the files of a program are unchanged, for plugins that decide about completion.
    pub(crate) async fn verify(&self) -> Result<(), String> {
        // A library is loaded from a private copy, which its host process verifies.
        let Code::Program(program) = &self.code else { return Ok(()) };
        let program = program.clone();
        let verified = tokio::task::spawn_blocking(move || program.verify()).await;
        verified.map_err(|error| error.to_string()).flatten()
    }

    /// Starts a process of the plugin.
    pub(crate) async fn connect(
        &self,
        supervisor: &Supervisor,
        env: &BTreeMap<String, String>,
    ) -> Result<Connection, String> {
        debug!(plugin = self.name(), "starting plugin process");
        let (program, args, cwd) = match &self.code {
            Code::Library(copy) => {
                let restored = copy.clone();
                let restored = tokio::task::spawn_blocking(move || restored.restore()).await;
                restored.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
                let dir = copy.path().parent().unwrap_or(copy.path());
                (OWN_PROGRAM.into(), vec![HOST_COMMAND.into(), copy.path().into()], dir.to_owned())
            }
            Code::Attached(attached) => {
                return attached.connect().await.map_err(|error| error.to_string());
            }
            Code::Program(program) => {
                (program.program.clone(), program.args.clone(), program.dir.clone())
            }
        };
        let (env, stdin, grace) = (env.clone(), Vec::new(), Grace::default());
        let spec = Spec { program, args, cwd, env, stdin, grace };
        PluginProcess::start(supervisor, spec).await.map_err(|error| error.to_string())
    }

    async fn start_session(
        &self,
        transport: Arc<dyn Transport>,
        inbound: mpsc::Receiver<Inbound>,
    ) -> Result<Session, SessionClosed> {
        let (remarks, trace) = (Arc::clone(&self.remarks), self.trace.get().cloned());
        let options = SessionOptions { remarks, trace, is_attached: self.is_attached() };
        Session::start_with(transport, inbound, options).await
    }

    /// Starts a session and opens the requested instance.
    pub(crate) async fn open_instance(
        &self,
        (transport, inbound): (Arc<dyn Transport>, mpsc::Receiver<Inbound>),
        request: &InstanceRequest,
    ) -> Result<Instance, OpenError> {
        let session = Arc::new(self.start_session(transport, inbound).await?);
        let item = self.select_item(session.hello(), request)?;
        let InstanceRequest { kind, table, context, .. } = request;
        if let Some(schema) = &item.schema {
            check_table(schema, table)?;
        }
        let (id, provided) = session.open(*kind, Some(&item.name), table.clone(), context).await?;
        debug!(plugin = self.name(), item = item.name, instance = id, "plugin instance opened");
        self.descriptions().insert(request.key(), provided.clone());
        Ok(Instance { session, id, provided })
    }

    fn descriptions(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Provided>> {
        self.descriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the description of the requested item. The item is built for it once, so that errors in
    /// its table are reported before anything starts.
    pub(crate) async fn describe(
        &self,
        supervisor: &Supervisor,
        request: &InstanceRequest,
    ) -> Result<Provided, FactoryError> {
        if let Some(provided) = self.descriptions().get(&request.key()) {
            return Ok(provided.clone());
        }
        let connection = self.connect(supervisor, &self.env).await;
        let connection = connection.map_err(|why| self.unavailable(&why))?;
        let Connection { process, transport, inbound } = connection;
        let instance = self.open_instance((transport, inbound), request).await;
        let session = instance.as_ref().ok().map(|instance| &*instance.session);
        disconnect(process, session, Shutdown::Graceful).await;
        match instance {
            Ok(instance) => Ok(instance.provided),
            Err(OpenError::Refused(error)) => Err(error.into()),
            Err(OpenError::NotProvided(message)) => Err(FactoryError::Unavailable(message)),
            Err(OpenError::SessionClosed(closed)) => Err(self.unavailable(&closed.0)),
        }
    }

    /// Selects the requested item among those that the plugin provides.
    fn select_item<'a>(
        &self,
        hello: &'a PluginHello,
        request: &InstanceRequest,
    ) -> Result<&'a Item, OpenError> {
        let items: Vec<&Item> =
            hello.provides.iter().filter(|item| item.kind == request.kind).collect();
        let (plugin, kind) = (&self.name, request.kind.word());
        let names = || {
            let names = items.iter().map(|item| format!("`{plugin}/{}`", item.name));
            names.collect::<Vec<_>>().join(", ")
        };
        let message = match (&request.member, items.as_slice()) {
            (_, []) => format!("the plugin `{plugin}` provides no {kind}"),
            (None, [only]) => return Ok(*only),
            (None, _) => format!("the plugin `{plugin}` provides several: name one of {}", names()),
            (Some(member), _) => match items.iter().find(|item| item.name == *member) {
                Some(item) => return Ok(*item),
                None => {
                    format!("the plugin `{plugin}` provides no {kind} `{member}`, but {}", names())
                }
            },
        };
        Err(OpenError::NotProvided(message))
    }
}

impl InstanceRequest {
    pub(crate) fn new(
        kind: ItemKind,
        member: Option<&str>,
        table: Value,
        context: &BuildContext,
    ) -> Self {
        Self { kind, member: member.map(str::to_owned), table, context: context.clone() }
    }

    /// Returns the key under which the description is cached.
    fn key(&self) -> String {
        let member = self.member.as_deref().unwrap_or_default();
        format!("{} {member} {}", self.kind.word(), self.table)
    }
}

/// Closes the session, if it is still open, and ends the process. A process whose session failed is
/// killed.
pub(crate) async fn disconnect(
    process: PluginProcess,
    session: Option<&Session>,
    shutdown: Shutdown,
) -> Exit {
    let open = session.filter(|session| session.closed().is_none());
    debug!(open = open.is_some(), ?shutdown, "ending plugin process");
    match (open, shutdown) {
        (Some(session), Shutdown::Graceful) => {
            session.close();
            process.end(Shutdown::Graceful).await
        }
        (None, Shutdown::Graceful) => process.end(Shutdown::Kill).await,
        (_, shutdown) => process.end(shutdown).await,
    }
}
