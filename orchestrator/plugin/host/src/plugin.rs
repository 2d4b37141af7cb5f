//! A plugin as the operator named it, and how a conversation with it begins.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use plugin_protocol::{Item, ItemKind, PluginHello, Provided};
use ralph_orchestrator_contract::{BuildContext, BuildError};
use ralph_orchestrator_supervisor::{Grace, Spec, Supervisor};
use serde_json::Value;
use tokio::sync::mpsc;
use tracing::debug;

use crate::carrier::{Carrier, Inbound};
use crate::copy::PrivateCopy;
use crate::inside::LibraryCarrier;
use crate::library::load;
use crate::process::{End, PluginProcess};
use crate::program::{Program, ProgramError};
use crate::session::{Broken, OpenError, Session};

/// The program of the host, whatever has become of its file: it is looked up by a process of its own.
const OURSELVES: &str = "/proc/self/exe";
/// The hidden command by which the host serves a library.
pub const HOST_COMMAND: &str = "plugin-host";

/// Where the code of a library runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// In a process of its own.
    Process,
    /// In this process.
    None,
}

/// A plugin as the operator named it.
pub struct Plugin {
    name: String,
    code: Code,
    /// For processes that belong to no iteration.
    env: BTreeMap<String, String>,
    /// What instances said of themselves, by kind, member and table.
    known: Mutex<BTreeMap<String, Known>>,
    /// The session in this process.
    inside: tokio::sync::Mutex<Option<Arc<Session>>>,
}

enum Code {
    Program(Program),
    Library(PrivateCopy, Isolation),
}

#[derive(Clone)]
struct Known {
    provided: Provided,
    /// In this process: it is there.
    instance: Option<u64>,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({})", self.name)
    }
}

/// What is asked of a plugin: one of its items, built from a table.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) kind: ItemKind,
    /// `NAME` of `plugin/NAME`.
    pub(crate) member: Option<String>,
    pub(crate) table: Value,
    pub(crate) context: BuildContext,
}

/// The way to a plugin.
pub(crate) enum Way {
    /// Of a process that was just started.
    New(Arc<dyn Carrier>, mpsc::Receiver<Inbound>),
    /// To the session in this process.
    Inside(Arc<Session>),
}

/// A plugin that can be talked to.
pub(crate) struct Entered {
    pub(crate) process: Option<PluginProcess>,
    pub(crate) way: Way,
}

/// An instance, ready for calls.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) session: Arc<Session>,
    pub(crate) instance: u64,
    pub(crate) provided: Provided,
}

impl Plugin {
    /// A program: its command is found in `path`, or from `dir`, where it also works.
    ///
    /// # Errors
    /// It is not there, or another one than `pinned` says.
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

    /// A library, by its private copy.
    #[must_use]
    pub fn library(
        name: &str,
        copy: PrivateCopy,
        isolation: Isolation,
        env: BTreeMap<String, String>,
    ) -> Self {
        Self::new(name, Code::Library(copy, isolation), env)
    }

    fn new(name: &str, code: Code, env: BTreeMap<String, String>) -> Self {
        let (known, inside) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { name: name.to_owned(), code, env, known, inside }
    }

    /// As it is called in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// BLAKE3 of its content, in hexadecimal: of the library, or of the command and the files that it
    /// names.
    #[must_use]
    pub fn digest(&self) -> &str {
        match &self.code {
            Code::Program(program) => program.digest(),
            Code::Library(copy, _) => copy.digest(),
        }
    }

    /// Where its code runs.
    #[must_use]
    pub const fn isolation(&self) -> Isolation {
        match &self.code {
            Code::Program(_) => Isolation::Process,
            Code::Library(_, isolation) => *isolation,
        }
    }

    /// The environment of its processes outside of iterations.
    pub(crate) const fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// Starts it, says hello and ends it: what it says of itself.
    ///
    /// # Errors
    /// It cannot be started, or does not say hello as it should.
    pub async fn look(&self, supervisor: &Supervisor) -> Result<PluginHello, Broken> {
        let Entered { process, way } = self.enter(supervisor, &self.env).await.map_err(Broken)?;
        let session = begin(way).await;
        let hello = session.as_ref().map(|session| session.hello().clone()).map_err(Clone::clone);
        leave(process, session.as_deref().ok(), End::Gently).await;
        hello
    }

    /// For messages: the plugin and what is the matter with it.
    pub(crate) fn says(&self, why: &str) -> String {
        format!("the plugin `{}`: {why}", self.name)
    }

    /// A file of a program that decides about completion must stay what it is.
    pub(crate) async fn verify(&self) -> Result<(), String> {
        // A library is loaded from a private copy, which is verified where it is loaded.
        let Code::Program(program) = &self.code else { return Ok(()) };
        let program = program.clone();
        let verified = tokio::task::spawn_blocking(move || program.verify()).await;
        verified.map_err(|error| error.to_string()).flatten()
    }

    /// Starts its process, or goes to the session in this one.
    pub(crate) async fn enter(
        &self,
        supervisor: &Supervisor,
        env: &BTreeMap<String, String>,
    ) -> Result<Entered, String> {
        debug!(plugin = self.name(), "plugin is entered");
        let env = env.clone();
        let spec = match &self.code {
            Code::Library(copy, Isolation::None) => {
                let session = self.inside(copy).await.map_err(|broken| broken.0)?;
                return Ok(Entered { process: None, way: Way::Inside(session) });
            }
            Code::Library(copy, Isolation::Process) => {
                let there = copy.clone();
                let restored = tokio::task::spawn_blocking(move || there.restore()).await;
                restored.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
                Spec {
                    program: OURSELVES.into(),
                    args: vec![HOST_COMMAND.into(), copy.path().into()],
                    cwd: copy.path().parent().unwrap_or(copy.path()).to_owned(),
                    env,
                    stdin: Vec::new(),
                    grace: Grace::default(),
                }
            }
            Code::Program(program) => Spec {
                program: program.program.clone(),
                args: program.args.clone(),
                cwd: program.dir.clone(),
                env,
                stdin: Vec::new(),
                grace: Grace::default(),
            },
        };
        let started = PluginProcess::start(supervisor, spec).await;
        let (process, carrier, inbound) = started.map_err(|error| error.to_string())?;
        Ok(Entered { process: Some(process), way: Way::New(carrier, inbound) })
    }

    /// The session in this process: one for all.
    async fn inside(&self, copy: &PrivateCopy) -> Result<Arc<Session>, Broken> {
        let mut inside = self.inside.lock().await;
        if let Some(session) = &*inside {
            return session.broken().map_or_else(|| Ok(Arc::clone(session)), Err);
        }
        let copy = copy.clone();
        let loaded = tokio::task::spawn_blocking(move || load(&copy)).await;
        let loaded = loaded
            .map_err(|error| Broken(error.to_string()))?
            .map_err(|error| Broken(error.to_string()))?;
        let (carrier, inbound) =
            LibraryCarrier::start(loaded).map_err(|error| Broken(error.to_string()))?;
        let session = Arc::new(Session::begin(Arc::new(carrier), inbound).await?);
        *inside = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Builds what is asked for.
    pub(crate) async fn sit(&self, way: Way, request: &Request) -> Result<Seat, OpenError> {
        let inside = matches!(way, Way::Inside(_));
        let session = begin(way).await?;
        let key = request.key();
        if inside && let Some(Known { provided, instance: Some(instance) }) = self.known(&key) {
            return Ok(Seat { session, instance, provided });
        }
        let name = self.choose(session.hello(), request)?;
        let Request { kind, table, context, .. } = request;
        let (instance, provided) = session.open(*kind, Some(&name), table.clone(), context).await?;
        debug!(plugin = self.name(), item = name, instance, "plugin has opened an item");
        let known = Known { provided: provided.clone(), instance: inside.then_some(instance) };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, known);
        Ok(Seat { session, instance, provided })
    }

    fn known(&self, key: &str) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// What the item says of itself; it is built for that once, so that mistakes in its table show
    /// before anything starts.
    pub(crate) async fn describe(
        &self,
        supervisor: &Supervisor,
        request: &Request,
    ) -> Result<Provided, BuildError> {
        if let Some(known) = self.known(&request.key()) {
            return Ok(known.provided);
        }
        let wrong = |why: &str| BuildError::at("", self.says(why));
        let entered = self.enter(supervisor, &self.env).await;
        let Entered { process, way } = entered.map_err(|why| wrong(&why))?;
        let seat = self.sit(way, request).await;
        let session = seat.as_ref().ok().map(|seat| &*seat.session);
        leave(process, session, End::Gently).await;
        match seat {
            Ok(seat) => Ok(seat.provided),
            Err(OpenError::Refused(error)) => Err(error),
            Err(OpenError::Broken(broken)) => Err(wrong(&broken.0)),
        }
    }

    /// The item's name, out of what the plugin provides.
    fn choose(&self, hello: &PluginHello, request: &Request) -> Result<String, BuildError> {
        let items: Vec<&Item> =
            hello.provides.iter().filter(|item| item.kind == request.kind).collect();
        let (plugin, kind) = (&self.name, request.kind.word());
        let names = || {
            let names = items.iter().map(|item| format!("`{plugin}/{}`", item.name));
            names.collect::<Vec<_>>().join(", ")
        };
        let message = match (&request.member, items.as_slice()) {
            (_, []) => format!("the plugin `{plugin}` provides no {kind}"),
            (None, [only]) => return Ok(only.name.clone()),
            (None, _) => format!("the plugin `{plugin}` provides several: name one of {}", names()),
            (Some(member), _) => match items.iter().find(|item| item.name == *member) {
                Some(item) => return Ok(item.name.clone()),
                None => {
                    format!("the plugin `{plugin}` provides no {kind} `{member}`, but {}", names())
                }
            },
        };
        Err(BuildError::at("", message))
    }
}

impl Request {
    fn key(&self) -> String {
        let member = self.member.as_deref().unwrap_or_default();
        format!("{} {member} {}", self.kind.word(), self.table)
    }
}

async fn begin(way: Way) -> Result<Arc<Session>, Broken> {
    match way {
        Way::New(carrier, inbound) => Ok(Arc::new(Session::begin(carrier, inbound).await?)),
        Way::Inside(session) => Ok(session),
    }
}

/// Brings the process to its end, if there is one of its own.
pub(crate) async fn leave(
    process: Option<PluginProcess>,
    session: Option<&Session>,
    end: End,
) -> Option<ralph_orchestrator_supervisor::Exit> {
    let process = process?;
    let broken = session.is_none_or(|session| session.broken().is_some());
    debug!(broken, ?end, "plugin's process is left");
    if let Some(session) = session.filter(|_| !broken && end == End::Gently) {
        session.close();
    }
    let end = if broken && end == End::Gently { End::Kill } else { end };
    Some(process.end(end).await)
}
