//! A model on loopback: speaks as much of the Anthropic Messages API as `claude` needs.
//!
//! What it answers to *main* requests, the ones that offer tools, is said by a [`Script`] or a
//! function of the request. Side requests, such as for a title, get a short answer that costs
//! nothing. Everything ends when the server is dropped.

mod http;
mod reply;
mod script;
mod server;
mod sse;

pub use http::Request;
pub use reply::{Fault, Reply, Turn};
pub use script::Script;
pub use server::ModelServer;
