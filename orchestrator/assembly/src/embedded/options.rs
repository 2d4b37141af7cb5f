//! How runs inside of another program are started.

/// How each run of a configuration is started.
#[derive(Clone, Debug, Default)]
pub(super) struct RunOptions {
    pub(super) once: bool,
    pub(super) restart: bool,
    pub(super) agent: Option<String>,
}
