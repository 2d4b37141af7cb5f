//! Files that are not even read, and digests.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use ralph_orchestrator_plugin_host::check;

use crate::c;

fn refusal(path: &Path) -> String {
    check(path, None).expect_err("it should be refused").to_string()
}

#[test]
fn what_is_no_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder.so")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe.so"), rustix::fs::Mode::RWXU).unwrap();
    let _socket = UnixListener::bind(path("socket.so")).unwrap();
    std::os::unix::fs::symlink(path("nowhere"), path("link.so")).unwrap();
    fs::write(path("file"), "x").unwrap();
    for (name, expected) in [
        ("missing.so", "there is no such file"),
        ("file/below.so", "there is no such file"),
        ("link.so", "there is no such file"),
        ("folder.so", "it is a folder, not a file"),
        ("pipe.so", "it is a named pipe, not a file"),
        ("socket.so", "it is a socket, not a file"),
    ] {
        let message = refusal(&path(name));
        assert!(message.contains(expected), "{name}: {message}");
        assert!(message.contains(name), "the path is named: {message}");
    }
    assert!(refusal(Path::new("/dev/zero")).contains("it is a device, not a file"));
}

#[test]
fn what_everybody_may_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let library = c::plugin(folder.path(), "open.so", &[]);
    check(&library, None).unwrap();
    fs::set_permissions(&library, Permissions::from_mode(0o646)).unwrap();
    let message = refusal(&library);
    assert!(message.contains("it is world-writable (mode 0646)"), "{message}");

    fs::set_permissions(&library, Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let message = refusal(&library);
    assert!(message.contains("its folder is world-writable (mode 0777)"), "{message}");

    // As in /tmp: nobody can replace the files of others there.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    check(&library, None).unwrap();
}

#[test]
fn only_the_pinned_content_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let library = c::plugin(folder.path(), "pinned.so", &[]);
    let digest = check(&library, None).unwrap().digest().to_owned();
    assert_eq!(digest, blake3::hash(&fs::read(&library).unwrap()).to_hex().as_str());
    check(&library, Some(&digest)).unwrap();
    check(&library, Some(&digest.to_uppercase())).unwrap();

    c::plugin(folder.path(), "pinned.so", &["-DVERSION=\"2.0.0\""]);
    let message = check(&library, Some(&digest)).unwrap_err().to_string();
    assert!(message.contains(&format!("allows only {digest}")), "{message}");

    let message = check(&library, Some("abc")).unwrap_err().to_string();
    assert!(message.contains("is `abc`, but must be 64 hexadecimal digits"), "{message}");
}

#[test]
fn a_file_that_only_claims_to_be_huge_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.so");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(refusal(&path).contains("it has 1099511627776 bytes, at most"));
}
