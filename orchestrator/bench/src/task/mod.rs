//! Tasks: what an agent is told, what it works in, and what decides about its work.
//!
//! [`load`] reads them in four forms: Harbor task directories, those of Terminal-Bench 1, practice exercises in
//! Exercism's layout, and folders with `ralph.toml`. [`Task::find_obstacles`] says what of a task cannot be honoured, [`Task::stage`] makes the files
//! of its environment, [`Task::install_tests`] those of its verification, and [`reward`] reads what that gave.
//!
//! A task is somebody else's work, and what an agent leaves is worse: no link is followed, every read is bounded, and
//! nothing is written outside of the folders that the caller names. Nothing here starts a process.

mod artifacts;
mod cheating;
mod copy;
mod deciding_files;
mod digest;
mod dockerfile;
mod exercism;
mod harbor;
mod load;
mod model;
mod named_packages;
mod names;
mod obstacle;
mod own;
mod problem;
mod provided;
pub mod reward;
mod settings;
mod setup_stage;
mod stage;
mod template;
mod terminal_bench;
mod test_summary;
mod text_file;
mod toml_table;
mod tree;
mod verification;

pub use self::artifacts::{ArtifactFinding, copy_artifacts};
pub use self::cheating::{LeftFiles, TestFiles};
pub use self::digest::sha256_of;
pub use self::dockerfile::{Dockerfile, SetupCommand};
pub use self::load::load;
pub use self::model::{
    EnvironmentSource, FileCopy, Oracle, RewardSource, Step, Task, TaskDescription, TaskForm,
    Verification, VerifierEnvironment, VerifierSettings,
};
pub use self::obstacle::{Capabilities, Feature, IsolationKind, Obstacle};
pub use self::own::{SOLUTION_FOLDER, SOLUTION_SCRIPT};
pub use self::problem::{LoadError, Problem, TextLocation, TreeError};
pub use self::provided::{
    Package, PackageError, PackageManager, ProgramOutput, ProvidedError, find_provided,
    install_command,
};
pub use self::settings::{
    AgentSettings, Artifact, CollectCommand, DEFAULT_BUILD_TIMEOUT, DEFAULT_VERIFIER_TIMEOUT,
    EnvironmentSettings, Healthcheck, MAIN_SERVICE, McpServer, McpTransport, NetworkPolicy,
    OperatingSystem, RewardGate, RewardStrategy, Tpu, User,
};
pub use self::setup_stage::{SetupStage, TaskEnvironment};
pub use self::stage::{Mount, StageError, StagedEnvironment};
pub use self::template::{MissingVariable, resolve_env};
pub use self::test_summary::read_pytest_summary;
