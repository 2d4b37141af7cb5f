//! The container of an attempt. It runs while a process of the attempt runs in it, and what that leaves ends with it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use ralph_orchestrator_supervisor::{
    CaptureLimit, Ending, Input, KillSwitch, Mount, Process, Spec, Stop, Wrapper, WrapperFuture,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::command_line::{ExecOrder, READY};
use super::engine::Engine;
use super::variables::ContainerVariables;

/// How long a container may take until its first process runs.
const START_TIME: Duration = Duration::from_secs(120);
/// How long a container may take to end by itself, and then by its engine. Podman takes 15 s and more where the client of
/// a process was killed, although everything in the container has ended at once.
const END_TIME: Duration = Duration::from_secs(60);
/// The most of what a container prints before it runs, in bytes.
const MAX_GREETING: usize = 64 << 10;

/// A container that was made. Its files are there until it is removed.
#[derive(Debug)]
pub struct Container {
    pub(super) name: String,
    pub(super) engine: Engine,
    /// What of this machine is in it.
    pub(super) mounts: Vec<Mount>,
    pub(super) variables: ContainerVariables,
    /// The search path of its processes, unless they are given another.
    pub(super) path: String,
    /// To whom files belong that its processes made, where these are not ours.
    pub(super) owner: Option<(u32, u32)>,
    /// What the processes of an attempt may find at other times: tests and solution.
    pub(super) folders: PathBuf,
    /// Kills the client, and with it everything in the container.
    switch: KillSwitch,
    /// The client that the container ends with, while it runs.
    client: Mutex<Option<Process>>,
    /// What the first process reads: the container ends when it is closed.
    input: SyncMutex<Option<Input>>,
    /// How many processes were started in it and have not ended.
    users: AtomicUsize,
    defect: SyncMutex<Option<String>>,
}

impl Container {
    pub(super) fn new(
        engine: Engine,
        name: String,
        mounts: Vec<Mount>,
        folders: PathBuf,
        switch: KillSwitch,
    ) -> Self {
        Self {
            name,
            engine,
            mounts,
            variables: ContainerVariables::default(),
            path: String::new(),
            owner: None,
            folders,
            switch,
            client: Mutex::default(),
            input: SyncMutex::default(),
            users: AtomicUsize::new(0),
            defect: SyncMutex::default(),
        }
    }

    /// Returns what went wrong with the container itself, so that what its processes did says nothing.
    pub fn find_defect(&self) -> Option<String> {
        self.defect.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers the first thing that went wrong.
    fn set_defect(&self, message: String) -> io::Error {
        let mut defect = self.defect.lock().unwrap_or_else(PoisonError::into_inner);
        io::Error::other(defect.get_or_insert(message).clone())
    }

    /// Returns the search path of its processes.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the path in the container of something that has this path on the machine.
    pub fn path_inside(&self, path: &Path) -> Option<PathBuf> {
        let inside = |mount: &Mount| {
            let rest = path.strip_prefix(&mount.source).ok()?;
            let is_itself = rest.as_os_str().is_empty();
            Some(if is_itself { mount.target.clone() } else { mount.target.join(rest) })
        };
        self.mounts.iter().rev().find_map(inside)
    }

    /// Returns the program that is started for one of this machine: the same if the container has it from there, else
    /// what the image has of its name.
    pub fn program_inside(&self, program: &Path) -> PathBuf {
        let named = || match program.file_name().filter(|_| program.is_absolute()) {
            Some(name) => PathBuf::from(name),
            None => program.to_owned(),
        };
        self.path_inside(program).unwrap_or_else(named)
    }

    /// Ends the container and removes it. Returns what is still there, for people.
    pub async fn remove(&self) -> Result<(), String> {
        if let Some(process) = self.client.lock().await.take() {
            self.close_input();
            process.stop(Stop::Kill);
        }
        self.engine
            .remove(&self.name)
            .await
            .map_err(|error| format!("the container {} could not be removed: {error}", self.name))
    }

    /// Has the first process read the end of its input, so that the container ends.
    fn close_input(&self) {
        drop(self.input.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn has_input(&self) -> bool {
        self.input.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Starts the container ahead of a process, whose time does not pay for it. Failures are reported by the start of that
    /// process.
    pub async fn start_ahead(&self) {
        let mut client = self.client.lock().await;
        drop(self.require_running(&mut client).await);
    }

    /// Starts the container unless it runs.
    async fn require_running(&self, client: &mut Option<Process>) -> io::Result<()> {
        if let Some(defect) = self.find_defect() {
            return Err(io::Error::other(defect));
        }
        if !self.has_input()
            && let Some(process) = client.take()
        {
            // A stop is in progress.
            self.end(process).await;
        }
        if client.is_none() {
            let started = self.start().await;
            let (process, input) = started.map_err(|message| self.set_defect(message))?;
            *self.input.lock().unwrap_or_else(PoisonError::into_inner) = Some(input);
            *client = Some(process);
        }
        Ok(())
    }

    /// Starts the container, and returns its client once the first process runs.
    async fn start(&self) -> Result<(Process, Input), String> {
        let spec = self.engine.spec(self.engine.commands.start(&self.name));
        let client = self.engine.with_kill_switch(&self.switch);
        let started = client.supervisor().spawn_with_input(spec).await;
        let (mut process, input) = started.map_err(|error| error.to_string())?;
        let mut printed = Vec::new();
        let greeting = async {
            while let Some(chunk) = process.next().await {
                printed.extend(chunk.bytes);
                if printed.split(|byte| *byte == b'\n').any(|line| line == READY.as_bytes()) {
                    return true;
                }
                if printed.len() > MAX_GREETING {
                    break;
                }
            }
            false
        };
        match timeout(START_TIME, greeting).await {
            Ok(true) => Ok((process, input)),
            Ok(false) => {
                let exit = process.wait().await;
                let said = String::from_utf8_lossy(&printed).trim().to_owned();
                Err(format!("the container {} did not start: {}: {said}", self.name, exit.ending))
            }
            Err(_) => {
                let seconds = START_TIME.as_secs();
                Err(format!("the container {} did not start within {seconds} s", self.name))
            }
        }
    }

    /// Returns what starts a process in the running container.
    fn exec(&self, spec: Spec) -> io::Result<Spec> {
        let workdir = self.path_inside(&spec.cwd).ok_or_else(|| {
            io::Error::other(format!("the folder {} is not in the container", spec.cwd.display()))
        })?;
        let (env, client_env) = self.variables.split(spec.env, self.engine.env())?;
        let order = ExecOrder {
            container: &self.name,
            workdir: &workdir,
            env: &env,
            program: &self.program_inside(&spec.program),
            args: &spec.args,
        };
        let args = self.engine.commands.exec(&order);
        Ok(Spec { env: client_env, stdin: spec.stdin, grace: spec.grace, ..self.engine.spec(args) })
    }

    /// Ends the container with everything that runs in it.
    async fn end(&self, mut process: Process) {
        self.close_input();
        if let Ok(exit) = timeout(END_TIME, process.wait()).await {
            if exit.ending != Ending::Exited(0) {
                self.set_defect(format!(
                    "the container {} ended while it was in use, by something else than this program: {}",
                    self.name, exit.ending
                ));
            }
            return;
        }
        let killed = self.engine.kill(&self.name).await;
        // One that has just ended cannot be killed, which is no defect.
        if timeout(END_TIME, process.wait()).await.is_ok() {
            return;
        }
        let why = killed.err().map(|error| format!(": {error}")).unwrap_or_default();
        self.set_defect(format!("the container {} could not be ended{why}", self.name));
    }

    /// Makes everything that processes made belong to who runs this program.
    async fn take_ownership(&self) {
        let Some((user, group)) = self.owner else { return };
        let writable = self.mounts.iter().filter(|mount| self.is_own(mount));
        let mut args = ["-R", "-h", &format!("{user}:{group}")].map(Into::into).to_vec();
        args.extend(writable.map(|mount| mount.target.clone().into_os_string()));
        let order = ExecOrder {
            container: &self.name,
            workdir: Path::new("/"),
            env: &[],
            program: Path::new("chown"),
            args: &args,
        };
        let spec = self.engine.spec(self.engine.commands.exec(&order));
        let stop = tokio::time::sleep(START_TIME);
        // What does not become ours is found by what reads it.
        drop(self.engine.supervisor().output(spec, CaptureLimit::default(), stop).await);
    }

    /// Whether a mount is a folder of the attempt.
    fn is_own(&self, mount: &Mount) -> bool {
        self.folders.parent().is_some_and(|attempt| mount.source.starts_with(attempt))
    }
}

impl Wrapper for Container {
    fn wrap(&self, spec: Spec) -> WrapperFuture<'_, io::Result<Spec>> {
        Box::pin(async move {
            let mut client = self.client.lock().await;
            self.require_running(&mut client).await?;
            let wrapped = self.exec(spec)?;
            self.users.fetch_add(1, Ordering::SeqCst);
            Ok(wrapped)
        })
    }

    /// Ends the container if the process is the only one in it: the signals that its client gets do not reach it.
    fn stop(&self) {
        if self.owner.is_none() && self.users.load(Ordering::SeqCst) == 1 {
            self.close_input();
        }
    }

    fn release(&self, _ending: Option<Ending>) -> WrapperFuture<'_, ()> {
        Box::pin(async move {
            let mut client = self.client.lock().await;
            if self.users.fetch_sub(1, Ordering::SeqCst) > 1 {
                return;
            }
            if let Some(process) = client.take() {
                self.take_ownership().await;
                self.end(process).await;
            }
        })
    }
}
