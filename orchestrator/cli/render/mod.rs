//! What a run looks like while it goes on.

pub(crate) mod atif;
mod human;
mod json;
mod quiet;
pub(crate) mod text;

pub(crate) use human::Human;
pub(crate) use json::Json;
pub(crate) use quiet::Quiet;
