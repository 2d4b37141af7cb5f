//! What is loaded is what was checked, whatever becomes of the file.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ralph_orchestrator_plugin_host::{Inbound, PrivateCopy, Transport as _, check};
use tempfile::TempDir;

use crate::c;
use crate::common::{HostProcess, command, error_of};

/// Far more than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

struct Place {
    dir: TempDir,
    copies: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let copies = dir.path().join("cache/plugins");
        Self { dir, copies }
    }

    fn build(&self, version: &str) -> PathBuf {
        c::plugin(self.dir.path(), "lib.so", &[&format!("-DVERSION=\"{version}\"")])
    }

    fn copy(&self, path: &Path) -> PrivateCopy {
        check(path, None).unwrap().copy_to(&self.copies).unwrap()
    }
}

/// The next that comes, as text.
async fn next(from: &mut tokio::sync::mpsc::Receiver<Inbound>) -> String {
    match tokio::time::timeout(PATIENCE, from.recv()).await.expect("in time") {
        Some(Inbound::Frame(frame)) => String::from_utf8(frame).unwrap(),
        Some(other) => format!("{other:?}"),
        None => "nothing".to_owned(),
    }
}

/// Loads the copy in a host process, and returns the version in its `hello`.
async fn version(copy: &PrivateCopy) -> String {
    copy.restore().unwrap();
    let (process, mut inbound) = HostProcess::start(copy);
    process.send(b"{}".to_vec()).unwrap();
    let hello: serde_json::Value = serde_json::from_str(&next(&mut inbound).await).unwrap();
    hello["version"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_was_checked_is_loaded_although_it_was_replaced_since() {
    let place = Place::new();
    let library = place.build("1.0.0");
    let checked = check(&library, None).unwrap();
    // As linkers and installers do: a new file takes its name.
    fs::remove_file(&library).unwrap();
    fs::write(&library, "replaced").unwrap();
    let copy = checked.copy_to(&place.copies).unwrap();
    assert_eq!(version(&copy).await, "1.0.0");
}

#[test]
fn what_is_overwritten_since_it_was_checked_is_not_loaded() {
    let place = Place::new();
    let library = place.build("1.0.0");
    let checked = check(&library, None).unwrap();
    fs::write(&library, "replaced").unwrap();
    let message = checked.copy_to(&place.copies).unwrap_err().to_string();
    assert!(message.contains("it was changed while it was read"), "{message}");
    assert_eq!(fs::read_dir(&place.copies).unwrap().count(), 0, "something was left");
}

/// The most memory that a process ever had, in kibibytes.
fn peak_of(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The most memory that a host process has had once it has loaded this library.
fn peak_when_loaded(copy: &PrivateCopy) -> u64 {
    let mut process = command(copy.path()).spawn().unwrap();
    process.stdin.as_mut().unwrap().write_all(b"{}\n").unwrap();
    let mut hello = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut hello).unwrap();
    assert!(hello.contains("version"), "{hello}");
    let peak = peak_of(&process.id().to_string());
    drop(process.stdin.take());
    process.wait().unwrap();
    peak
}

/// Whether this is a process that runs this test only; otherwise runs one, since the memory of other tests would be
/// counted too.
#[allow(clippy::disallowed_methods)] // It is this program, and ends when the test does.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "TEST_RUNS_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let status = alone.args(["--exact", test, "--nocapture"]).env(ALONE, "1").status().unwrap();
    assert!(status.success(), "{status}");
    false
}

#[test]
fn a_library_with_much_debug_information_takes_no_more_memory() {
    const DEBUG_INFORMATION: u64 = 64 * 1024 * 1024;
    if !is_alone("copies::a_library_with_much_debug_information_takes_no_more_memory") {
        return;
    }
    let place = Place::new();
    let small = place.copy(&place.build("1.0.0"));
    let large = place.build("2.0.0");
    let file = fs::OpenOptions::new().write(true).open(&large).unwrap();
    file.set_len(file.metadata().unwrap().len() + DEBUG_INFORMATION).unwrap();
    let before = peak_of("self");
    let large = place.copy(&large);
    fs::remove_file(large.path()).unwrap();
    large.restore().unwrap();
    let most = DEBUG_INFORMATION / 1024 / 4;
    let grown = peak_of("self") - before;
    assert!(grown < most, "{grown} KiB more to check and copy it");
    let [small, large] = [&small, &large].map(peak_when_loaded);
    assert!(large < small + most, "{large} KiB to load it, {small} KiB to load a small one");
}

#[tokio::test]
async fn a_loaded_library_works_on_when_the_file_is_overwritten() {
    let place = Place::new();
    let library = place.build("1.0.0");
    let (process, mut inbound) = HostProcess::start(&place.copy(&library));
    // In place: the same inode, which would change the mapped code.
    fs::OpenOptions::new().write(true).truncate(true).open(&library).unwrap();
    process.send(b"{}".to_vec()).unwrap();
    assert!(next(&mut inbound).await.contains("1.0.0"));
}

#[tokio::test]
async fn what_is_built_anew_at_the_same_path_is_really_loaded() {
    let place = Place::new();
    assert_eq!(version(&place.copy(&place.build("1.0.0"))).await, "1.0.0");
    assert_eq!(version(&place.copy(&place.build("2.0.0"))).await, "2.0.0");
    // And the first again.
    assert_eq!(version(&place.copy(&place.build("1.0.0"))).await, "1.0.0");
}

#[test]
fn a_copy_is_private_and_named_by_its_content() {
    let place = Place::new();
    let library = place.build("1.0.0");
    let copy = place.copy(&library);
    assert_eq!(copy.path().parent().unwrap(), place.copies.canonicalize().unwrap());
    assert_eq!(copy.path().file_name().unwrap().to_str().unwrap(), format!("{}.so", copy.digest()));
    assert_eq!(fs::metadata(copy.path()).unwrap().mode() & 0o7777, 0o500);
    assert_eq!(fs::metadata(&place.copies).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(fs::read(copy.path()).unwrap(), fs::read(&library).unwrap());
    let inode = fs::metadata(copy.path()).unwrap().ino();
    assert_eq!(place.copy(&library).path(), copy.path());
    assert_eq!(fs::metadata(copy.path()).unwrap().ino(), inode, "it was made anew without need");
    assert_eq!(fs::read_dir(&place.copies).unwrap().count(), 1, "something was left beside it");
}

#[test]
fn a_copy_that_was_changed_is_refused_and_then_made_anew() {
    let place = Place::new();
    let library = place.build("1.0.0");
    let copy = place.copy(&library);
    fs::set_permissions(copy.path(), Permissions::from_mode(0o700)).unwrap();
    let mut content = fs::read(copy.path()).unwrap();
    content.push(0);
    fs::write(copy.path(), content).unwrap();
    assert!(error_of(copy.path()).contains("this private copy was modified"));
    let message = PrivateCopy::open(copy.path()).unwrap_err().to_string();
    assert!(message.contains("this private copy was modified"), "{message}");

    let copy = place.copy(&library);
    PrivateCopy::open(copy.path()).unwrap();
    assert_eq!(fs::metadata(copy.path()).unwrap().mode() & 0o7777, 0o500);
}

#[tokio::test]
async fn a_copy_that_was_removed_with_its_folder_is_made_again() {
    let place = Place::new();
    let library = place.build("1.0.0");
    let copy = place.copy(&library);
    // Neither is the library there any more, nor the copy.
    place.build("2.0.0");
    fs::remove_dir_all(&place.copies).unwrap();
    assert_eq!(version(&copy).await, "1.0.0");
    assert_eq!(fs::metadata(copy.path()).unwrap().mode() & 0o7777, 0o500);
    assert_eq!(fs::metadata(&place.copies).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(fs::read_dir(&place.copies).unwrap().count(), 1, "something was left beside it");
}

#[test]
fn a_copy_that_was_changed_and_then_removed_is_not_made_again() {
    let place = Place::new();
    let copy = place.copy(&place.build("1.0.0"));
    fs::set_permissions(copy.path(), Permissions::from_mode(0o700)).unwrap();
    fs::OpenOptions::new().append(true).open(copy.path()).unwrap().write_all(b"x").unwrap();
    fs::remove_file(copy.path()).unwrap();
    let message = copy.restore().unwrap_err().to_string();
    assert!(message.contains("this private copy was modified"), "{message}");
    assert!(!copy.path().exists());
}

#[test]
fn copies_that_were_not_wanted_for_long_go_and_nothing_else() {
    let place = Place::new();
    let old = place.copy(&place.build("1.0.0"));
    let half = place.copies.join(format!(".{}.7-0", old.digest()));
    let foreign = place.copies.join("notes.so");
    let young = place.copy(&place.build("2.0.0"));
    for path in [&half, &foreign] {
        fs::write(path, "x").unwrap();
    }
    let days = |days: u64| SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    for (path, age) in [(old.path(), 31), (&half, 31), (&foreign, 31), (young.path(), 29)] {
        fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
        fs::File::open(path).unwrap().set_modified(days(age)).unwrap();
    }
    let new = place.copy(&place.build("3.0.0"));
    let there = [old.path(), &half, &foreign, young.path(), new.path()].map(Path::exists);
    assert_eq!(there, [false, false, true, true, true]);
    // What is wanted again is young again.
    fs::File::open(young.path()).unwrap().set_modified(days(31)).unwrap();
    place.copy(&place.build("2.0.0"));
    place.copy(&place.build("3.0.0"));
    assert!(young.path().exists());
}

#[test]
fn a_folder_to_which_others_may_write_holds_no_private_copy() {
    let place = Place::new();
    let library = place.build("1.0.0");
    fs::create_dir_all(&place.copies).unwrap();
    fs::set_permissions(&place.copies, Permissions::from_mode(0o770)).unwrap();
    let message = check(&library, None).unwrap().copy_to(&place.copies).unwrap_err().to_string();
    assert!(message.contains("which others may write to (mode 0770)"), "{message}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let place = Place::new();
    let library = place.build("1.0.0");
    let message = check(&library, None).unwrap().copy_to(&library).unwrap_err().to_string();
    assert!(message.contains("cannot create a private copy of it in"), "{message}");
}

#[test]
fn a_copy_is_found_by_its_path_alone() {
    let place = Place::new();
    let library = place.build("1.0.0");
    let copy = place.copy(&library);
    assert_eq!(PrivateCopy::open(copy.path()).unwrap().digest(), copy.digest());
    let message = PrivateCopy::open(&library).unwrap_err().to_string();
    assert!(message.contains("it is not a private copy of a plugin"), "{message}");
}

#[test]
fn a_failure_to_open_a_session_is_reported() {
    let place = Place::new();
    let library = c::plugin(place.dir.path(), "lib.so", &["-DOPEN_FAILS=-4"]);
    let error = error_of(place.copy(&library).path());
    assert!(error.contains("its function `open` returned -4 (failed)"), "{error}");
}

#[tokio::test]
async fn a_function_that_returns_an_error_ends_the_process() {
    let place = Place::new();
    let (process, mut inbound) = HostProcess::start(&place.copy(&place.build("1.0.0")));
    // The plugin in C takes no empty frame.
    process.send(Vec::new()).unwrap();
    let error = next(&mut inbound).await;
    assert!(error.contains("its function `send` returned -1 (invalid)"), "{error}");
    assert!(next(&mut inbound).await.contains("Ended"));
}
