//! Answers in order.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{Reply, Request};

/// What the main requests are answered, one after the other. Clients with names of their own
/// ([`Request::client`]) each get all of it, from its beginning.
#[derive(Clone, Debug, Default)]
pub struct Script {
    steps: Vec<Reply>,
    last: Option<Reply>,
}

impl Script {
    /// An empty script. A request beyond the script's end is an error that says so.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Then this, once.
    #[must_use]
    pub fn then(self, reply: impl Into<Reply>) -> Self {
        self.times(1, reply)
    }

    /// Then this, so many times.
    #[must_use]
    pub fn times(mut self, count: usize, reply: impl Into<Reply>) -> Self {
        let reply = reply.into();
        self.steps.extend(std::iter::repeat_n(reply, count));
        self
    }

    /// Then this, for ever.
    #[must_use]
    pub fn forever(mut self, reply: impl Into<Reply>) -> Self {
        self.last = Some(reply.into());
        self
    }

    /// The script as what [`ModelServer::start`](super::ModelServer::start) asks for.
    pub fn into_handler(self) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
        let positions = Mutex::new(BTreeMap::<String, usize>::new());
        move |request: &Request| {
            let mut positions = positions.lock().unwrap_or_else(PoisonError::into_inner);
            let position = positions.entry(request.client().to_owned()).or_default();
            let step = self.steps.get(*position);
            *position += 1;
            step.or(self.last.as_ref()).cloned().unwrap_or_else(|| {
                Reply::error(400, "the test's script of the model has come to its end")
            })
        }
    }
}
