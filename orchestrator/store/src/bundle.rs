//! Bundles open files into one descriptor, for processes that can inherit only one.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};

/// Returns the end of a socket in whose queue the files are on their way for ever: as long as it is open in
/// any process, so are they, with their locks.
pub(crate) fn bundle(one: &File, other: &File) -> io::Result<File> {
    let (way_in, end) =
        socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let files = [one.as_fd(), other.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("no room for two descriptors"));
    }
    sendmsg(&way_in, &[IoSlice::new(b"\0")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(File::from(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_last_as_long_as_the_one_descriptor() {
        let temp = tempfile::tempdir().unwrap();
        let open = |name: &str| File::create(temp.path().join(name)).unwrap();
        let (one, other) = (open("one"), open("other"));
        one.lock().unwrap();
        other.lock().unwrap();
        let kept = bundle(&one, &other).unwrap();
        drop((one, other));
        assert!(open("one").try_lock().is_err() && open("other").try_lock().is_err());
        let handed_down = kept.try_clone().unwrap();
        drop(kept);
        assert!(open("one").try_lock().is_err() && open("other").try_lock().is_err());
        drop(handed_down);
        open("one").lock().unwrap();
        open("other").lock().unwrap();
    }
}
