//! What the isolations of trials are made of: a row each.

use ralph_orchestrator_bench::task::IsolationKind;
use ralph_orchestrator_config::Isolation;

use super::container::{Docker, EngineCommands, Podman};

/// An isolation of trials.
#[derive(Debug)]
pub struct IsolationRow {
    /// What keeps a trial apart, as tasks see it.
    pub kind: IsolationKind,
    /// Whether `bwrap` makes its file systems, instead of this program.
    pub needs_bubblewrap: bool,
    /// The command line of the engine that makes its containers.
    pub(crate) engine: Option<&'static dyn EngineCommands>,
    /// The type of environment that Harbor knows it as.
    pub harbor_type: Option<&'static str>,
}

/// The machine as it is.
const NONE: IsolationRow = IsolationRow {
    kind: IsolationKind::None,
    needs_bubblewrap: false,
    engine: None,
    harbor_type: None,
};
const NAMESPACE: IsolationRow = IsolationRow { kind: IsolationKind::Namespace, ..NONE };
const BUBBLEWRAP: IsolationRow = IsolationRow { needs_bubblewrap: true, ..NAMESPACE };
const DOCKER: IsolationRow = IsolationRow {
    kind: IsolationKind::Container,
    engine: Some(&Docker),
    harbor_type: Some("docker"),
    ..NONE
};
const PODMAN: IsolationRow =
    IsolationRow { engine: Some(&Podman), harbor_type: Some("podman"), ..DOCKER };

impl IsolationRow {
    /// Returns what an isolation is made of.
    pub const fn of(isolation: Isolation) -> &'static Self {
        match isolation {
            Isolation::None => &NONE,
            Isolation::Namespace => &NAMESPACE,
            Isolation::Bubblewrap => &BUBBLEWRAP,
            Isolation::Docker => &DOCKER,
            Isolation::Podman => &PODMAN,
        }
    }

    /// Returns whether trials are performed in containers of an image.
    pub fn is_container(&self) -> bool {
        self.kind == IsolationKind::Container
    }

    /// Returns whether trials have a file system of their own.
    pub fn has_root(&self) -> bool {
        self.kind != IsolationKind::None
    }
}
