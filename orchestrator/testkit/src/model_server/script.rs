//! Answers in order.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::{Reply, Request};

/// What the main requests are answered, one after the other.
#[derive(Debug, Default)]
pub struct Script {
    steps: VecDeque<Reply>,
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

    pub(super) fn into_handler(self) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
        let script = Mutex::new(self);
        move |_: &Request| {
            let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
            script.steps.pop_front().or_else(|| script.last.clone()).unwrap_or_else(|| {
                Reply::error(400, "the test's script of the model has come to its end")
            })
        }
    }
}
