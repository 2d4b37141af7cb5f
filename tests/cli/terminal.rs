//! A terminal for one command.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// What a command shows on a terminal. It must print little: nobody reads before it has ended.
pub(crate) fn on_terminal(mut command: Command) -> String {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap().into_string().unwrap();
    let side = File::options().read(true).write(true).open(name).unwrap();
    let status = command.stdout(OwnedFd::from(side)).status().unwrap();
    assert!(status.success(), "{status}");
    drop(command);
    // The last writer has gone: what is left to read ends with an error.
    let (mut shown, mut piece) = (Vec::new(), [0; 4096]);
    let mut main = File::from(main);
    while let Ok(count @ 1..) = main.read(&mut piece) {
        shown.extend_from_slice(&piece[..count]);
    }
    String::from_utf8(shown).unwrap()
}
