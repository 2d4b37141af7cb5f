//! Trials in containers: the command line of an engine, images, and the container of an attempt.

mod artifacts;
mod command_line;
mod engine;
mod environment;
mod files;
mod image;
mod leftovers;
mod running;
mod variables;

pub use artifacts::find_folders;
pub(crate) use command_line::{Docker, EngineCommands, Podman};
pub use engine::Engine;
pub use environment::{ContainerSetup, JobContainers};
pub use running::Container;
