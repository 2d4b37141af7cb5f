//! A model on loopback: speaks as much of the Anthropic Messages, OpenAI Responses and OpenAI chat
//! completions APIs as agents need, so that one script drives every agent.
//!
//! What it answers to *main* requests, the ones that offer tools, is said by a [`Script`] or a
//! function of the request. Side requests, such as for a title, get a short answer that costs
//! nothing. Everything ends when the server is dropped.

mod api;
mod call;
mod chat;
mod file;
mod http;
mod messages;
mod reply;
mod responses;
mod script;
mod server;
mod tools;

pub use api::Api;
pub use http::Request;
pub use reply::{Fault, Reply, Turn};
pub use script::Script;
pub use server::ModelServer;
