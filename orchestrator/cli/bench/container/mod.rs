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

pub(crate) use artifacts::find_folders;
pub(crate) use command_line::{Docker, EngineCommands, Podman};
pub(crate) use engine::Engine;
pub(crate) use environment::{ContainerSetup, JobContainers};
pub(crate) use running::Container;
