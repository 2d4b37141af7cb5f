//! How often something is sent to a receiver that does not take it: the same for notices and for traces.

use std::time::Duration;

use tokio::sync::watch;

/// The pause after the first failure; it doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// How often something is sent once the run has ended.
const MOST_LAST_ATTEMPTS: u32 = 2;
/// How often something is sent that is refused.
const MOST_REFUSALS: u32 = 3;

/// The attempts to send one thing.
#[derive(Debug)]
pub struct Retries {
    failures: u32,
    refusals: u32,
    last_attempts: u32,
    /// The run had ended when the present attempt began.
    is_closing: bool,
    pause: Duration,
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Another attempt, after a pause.
    Again,
    /// No further attempt by this process, as the run has ended.
    Later,
    /// No further attempt at all: it was refused too often.
    Never,
}

impl Default for Retries {
    fn default() -> Self {
        Self { failures: 0, refusals: 0, last_attempts: 0, is_closing: false, pause: FIRST_PAUSE }
    }
}

impl Retries {
    /// Begins an attempt; `closing` says whether the run has ended.
    pub fn begin(&mut self, closing: &watch::Receiver<bool>) {
        self.is_closing = *closing.borrow();
        self.last_attempts = self.last_attempts.saturating_add(u32::from(self.is_closing));
    }

    /// Counts a failed attempt, and returns what follows it.
    pub fn fail(&mut self, is_refusal: bool) -> Retry {
        self.failures = self.failures.saturating_add(1);
        self.refusals = self.refusals.saturating_add(u32::from(is_refusal));
        if self.refusals >= MOST_REFUSALS {
            Retry::Never
        } else if self.last_attempts >= MOST_LAST_ATTEMPTS {
            Retry::Later
        } else {
            Retry::Again
        }
    }

    /// Returns how many attempts have failed.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Waits until the next attempt. The end of the run ends the pause.
    pub async fn wait(&mut self, closing: &mut watch::Receiver<bool>) {
        tokio::select! {
            () = tokio::time::sleep(self.pause) => {}
            _ = closing.wait_for(|closing| *closing), if !self.is_closing => {}
        }
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}
