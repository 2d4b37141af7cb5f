//! Ending all trees at once, from anywhere.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rustix::net::SendFlags;

use crate::keepers::Keepers;
use crate::spec::Stop;

/// Kills every tree that was started by the supervisors that have it, whoever waits for them now. Cheap
/// to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct KillSwitch(Arc<Mutex<Trees>>);

#[derive(Debug, Default)]
struct Trees {
    pulled: bool,
    /// The ways to those that still run.
    links: Vec<Weak<Link>>,
}

/// A way to one tree.
#[derive(Debug)]
pub(crate) struct Link {
    /// Our end of its control socket.
    control: OwnedFd,
    /// Set once they are known.
    pub(crate) keepers: OnceLock<Keepers>,
}

impl KillSwitch {
    /// Sends SIGKILL to all trees, also to those that are only just being started. Does not wait for
    /// their end: those who started them see it. What is started later is killed at once, too.
    pub fn pull(&self) {
        let mut trees = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trees.pulled = true;
        for link in trees.links.iter().filter_map(Weak::upgrade) {
            link.kill();
        }
    }

    /// Whether all trees were killed, so that none ended as it would have.
    #[must_use]
    pub fn is_pulled(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pulled
    }

    /// Makes the switch reach the tree at the other end, as long as what is returned lives.
    pub(crate) fn join(&self, control: BorrowedFd<'_>) -> std::io::Result<Arc<Link>> {
        let control = control.try_clone_to_owned()?;
        let link = Arc::new(Link { control, keepers: OnceLock::new() });
        let mut trees = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trees.links.retain(|link| link.strong_count() > 0);
        trees.links.push(Arc::downgrade(&link));
        if trees.pulled {
            link.kill();
        }
        Ok(link)
    }
}

impl Link {
    /// A shim that has gone needs no order, and one that was stopped takes none.
    fn kill(&self) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(self.control.as_fd(), &[Stop::Kill.order()], flags);
        if let Some(keepers) = self.keepers.get() {
            keepers.wake();
        }
    }
}
