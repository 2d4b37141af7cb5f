//! Walks a folder tree by open folders, so that nothing can be swapped under the walker.

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::io::Errno;

use crate::fingerprint::FileFingerprint;
use crate::openat;

/// How many levels of folders are kept open; deeper ones are opened again when needed.
const KEPT_OPEN: usize = 64;

/// Why a folder was not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// It is no longer there, or no longer a folder.
    Gone,
    /// It may not be read.
    Unreadable,
    /// It lies too deep.
    TooDeep,
}

impl From<Errno> for SkipReason {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Self::Gone,
            _ => Self::Unreadable,
        }
    }
}

/// A folder to enter: its name, and the state that the visitor hands down.
pub type Subfolder<S> = (Vec<u8>, S);

/// Receives the folders of a [`walk`].
pub trait DirVisitor {
    /// What a folder hands down to its subfolders.
    type State;
    /// Why a walk ends early.
    type Stop;

    /// Visits one folder. `path` is relative to the top, ending in `/` unless empty. Returns the
    /// subfolders to enter, in order.
    ///
    /// # Errors
    /// Returns why the walk ends early.
    fn visit(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        state: &Self::State,
    ) -> Result<Vec<Subfolder<Self::State>>, Self::Stop>;

    /// Ends the visit of the folder whose path has this many bytes, after everything beneath it.
    fn leave(&mut self, _path_len: usize) {}

    /// Reports a subfolder that was not entered. `path` has no `/` at its end.
    fn skip(&mut self, path: &[u8], why: SkipReason, fingerprint: Option<FileFingerprint>);
}

struct Frame<S> {
    /// `None` while deeper folders are visited.
    fd: Option<OwnedFd>,
    name: Vec<u8>,
    path_len: usize,
    /// Last one first.
    pending: Vec<Subfolder<S>>,
}

/// Walks `top` and all folders that the visitor wants entered, each before its subfolders.
///
/// # Errors
/// Returns why the visitor ended the walk early.
pub fn walk<V: DirVisitor>(
    top: OwnedFd,
    visitor: &mut V,
    state: &V::State,
    max_depth: usize,
) -> Result<(), V::Stop> {
    let mut path = Vec::new();
    let mut pending = visitor.visit(top.as_fd(), &path, state)?;
    pending.reverse();
    let mut frames = vec![Frame { fd: Some(top), name: Vec::new(), path_len: 0, pending }];
    while let Some(frame) = frames.last_mut() {
        path.truncate(frame.path_len);
        let Some((name, state)) = frame.pending.pop() else {
            visitor.leave(frame.path_len);
            frames.pop();
            continue;
        };
        path.extend_from_slice(&name);
        if frames.len() > max_depth {
            let fingerprint = fingerprint_child(&frames, &name);
            visitor.skip(&path, SkipReason::TooDeep, fingerprint);
            continue;
        }
        match open_child(&mut frames, &name) {
            Ok(fd) => {
                path.push(b'/');
                let mut pending = visitor.visit(fd.as_fd(), &path, &state)?;
                pending.reverse();
                frames.push(Frame { fd: Some(fd), name, path_len: path.len(), pending });
            }
            Err(error) => {
                let fingerprint = fingerprint_child(&frames, &name);
                visitor.skip(&path, SkipReason::from(error), fingerprint);
            }
        }
    }
    Ok(())
}

/// Opens a subfolder of the last frame's folder, and closes that one if it need not stay open.
fn open_child<S>(frames: &mut [Frame<S>], name: &[u8]) -> Result<OwnedFd, Errno> {
    reopen(frames)?;
    let depth = frames.len();
    let frame = frames.last_mut().ok_or(Errno::NOENT)?;
    let child = openat::open_subfolder(frame.fd.as_ref().ok_or(Errno::NOENT)?.as_fd(), name)?;
    if depth > 1 && (depth > KEPT_OPEN || frame.pending.is_empty()) {
        frame.fd = None;
    }
    Ok(child)
}

/// Returns the fingerprint of a subfolder that cannot be opened.
fn fingerprint_child<S>(frames: &[Frame<S>], name: &[u8]) -> Option<FileFingerprint> {
    let folder = frames.last()?.fd.as_ref()?;
    FileFingerprint::from_name(folder.as_fd(), name).ok()
}

/// Opens the last frame's folder again, from the nearest one that is open.
fn reopen<S>(frames: &mut [Frame<S>]) -> Result<(), Errno> {
    let open = frames.iter().rposition(|frame| frame.fd.is_some()).ok_or(Errno::NOENT)?;
    let mut steps = frames.get_mut(open..).unwrap_or_default().iter_mut();
    let Some(first) = steps.next() else { return Ok(()) };
    let mut current: Option<OwnedFd> = None;
    let mut last = None;
    for frame in steps {
        let parent = current.as_ref().or(first.fd.as_ref()).ok_or(Errno::NOENT)?;
        current = Some(openat::open_subfolder(parent.as_fd(), &frame.name)?);
        last = Some(frame);
    }
    if let Some(frame) = last {
        frame.fd = current;
    }
    Ok(())
}
