//! What a process in a view sees, and where its writes land.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use ralph_orchestrator_supervisor::{Mount, MountAccess, SpawnError, Spec, Supervisor, ViewError};

use crate::common::sh;
use crate::fixture::{Fixture, require, run, shim, snapshot};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn writes_land_in_the_upper_folder_and_nothing_else_changes() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.ws.join("src")).unwrap();
    for (name, text) in [("src/a", "a"), ("src/b", "b"), ("c", "c")] {
        fs::write(fixture.ws.join(name), text).unwrap();
    }
    let (before, mounts) = (snapshot(&fixture.ws), fs::read("/proc/self/mountinfo").unwrap());
    let text = "pwd; cat src/a; echo changed > src/a; rm src/b; rm -r c; mkdir -p new/deep; echo n > new/deep/n
        chmod 600 src/a; ls src; cat src/a";
    let seen = fixture.script(text).await;
    assert_eq!(seen, format!("{}\naa\nchanged\n", fixture.ws.display()));
    assert_eq!(snapshot(&fixture.ws), before, "the workspace is untouched");
    assert_eq!(fs::read("/proc/self/mountinfo").unwrap(), mounts, "nothing is mounted here");
    let upper = &fixture.overlay.upper;
    assert_eq!(fs::read_to_string(upper.join("src/a")).unwrap(), "changed\n");
    assert_eq!(fs::read_to_string(upper.join("new/deep/n")).unwrap(), "n\n");
    assert_eq!(fs::symlink_metadata(upper.join("src/b")).unwrap().rdev(), 0, "a whiteout");
    // The next one goes on where it was.
    assert_eq!(fixture.script("cat src/a new/deep/n; [ ! -e c ]").await, "changed\nn\n");
}

#[tokio::test]
async fn all_else_is_the_hosts() {
    let (fixture, host) = (Fixture::new(), tempfile::tempdir().unwrap());
    let listener = std::os::unix::net::UnixListener::bind(host.path().join("socket")).unwrap();
    let text = format!(
        "cd {}; touch made; readlink /proc/self/ns/net /proc/self/ns/ipc; uname -n; [ -d /sys/class ]
        echo > /dev/null; id -u; id -g; stat -c '%u %g' made /proc/self/; [ -S socket ]",
        host.path().display()
    );
    let seen = fixture.script(&text).await;
    let own = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
    let node = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let ids = format!("{user}\n{group}\n{user} {group}\n{user} {group}\n");
    let net_and_ipc = format!("{}\n{}\n", own("net").display(), own("ipc").display());
    assert_eq!(seen, format!("{net_and_ipc}{node}\n{ids}"));
    assert!(host.path().join("made").exists());
    drop(listener);
}

#[tokio::test]
async fn folder_and_program_are_those_of_the_view() {
    let fixture = Fixture::new();
    let (ws, top) = (&fixture.ws, fixture.folder("top"));
    let script = |path: &Path, first: &str, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!{first}\n{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    // Neither folder nor interpreter nor program is on the host.
    std::os::unix::fs::symlink("/bin/sh", top.join("shell")).unwrap();
    script(&top.join("bin/tool"), &ws.join("shell").display().to_string(), "pwd; echo $0");
    script(&ws.join("bin/tool"), "/bin/sh", "echo wrong");
    let mut overlay = fixture.overlay.clone();
    overlay.layers.insert(0, top);
    let mut view = fixture.view();
    view.overlays = vec![overlay];
    let supervisor = crate::fixture::plain_supervisor().with_view(view);
    for program in [ws.join("bin/tool"), "tool".into(), "../bin/tool".into()] {
        let spec = Spec { program: program.clone(), args: vec![], cwd: ws.join("bin"), ..sh("") };
        let ran = run(&supervisor, spec).await.unwrap();
        assert!(
            ran.stdout.starts_with(&format!("{}/bin\n{}/bin", ws.display(), ws.display())),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_executed_is_examined_within_the_view() {
    let fixture = Fixture::new();
    fs::write(fixture.ws.join("plain"), "").unwrap();
    let bad = fixture.ws.join("bad");
    fs::write(&bad, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&bad, fs::Permissions::from_mode(0o755)).unwrap();
    let hide = fixture.folder("hide");
    let folder = ralph_orchestrator_safe_fs::open_folder(&hide).unwrap();
    let fd = std::os::fd::AsFd::as_fd(&folder);
    fs::write(fixture.ws.join("hidden"), "").unwrap();
    ralph_orchestrator_safe_fs::create_whiteout(fd, b"hidden").unwrap();
    let mut view = fixture.view();
    view.overlays[0].layers.insert(0, hide);
    let supervisor = crate::fixture::plain_supervisor().with_view(view);
    let start = async |program: &str, cwd: &Path| {
        let spec = Spec { program: program.into(), cwd: cwd.to_owned(), ..sh("") };
        run(&supervisor, spec).await.unwrap_err()
    };
    for name in ["hidden", "none", "/no/such"] {
        let error = start(name, &fixture.ws).await;
        assert!(matches!(error, SpawnError::NotFound { .. }), "{name}: {error}");
    }
    assert!(matches!(start(".", &fixture.ws).await, SpawnError::Folder { .. }));
    assert!(matches!(start("plain", &fixture.ws).await, SpawnError::NotExecutable { .. }));
    assert!(matches!(start("bad", &fixture.ws).await, SpawnError::BadInterpreter { .. }));
    let none = start("/bin/sh", &fixture.ws.join("none")).await;
    assert!(none.to_string().contains("enter the folder"), "{none}");
    let relative = start("/bin/sh", Path::new("ws")).await;
    let bad = matches!(relative, SpawnError::View { reason: ViewError::BadPath { .. }, .. });
    assert!(bad, "{relative}");
    // The shim starts the next one.
    assert_eq!(run(&supervisor, fixture.sh("exit 4")).await.unwrap().code, Some(4));
}

#[tokio::test]
async fn mounts_lie_over_the_overlays_and_come_from_the_host() {
    let fixture = Fixture::new();
    let (ws, own) = (&fixture.ws, fixture.folder("own.git"));
    fs::create_dir_all(ws.join(".git/objects")).unwrap();
    fs::write(ws.join(".git/objects/o"), "object").unwrap();
    fs::create_dir(own.join("objects")).unwrap();
    fs::write(own.join("HEAD"), "own").unwrap();
    let mount = |source: &Path, target: &str, access| Mount {
        source: source.to_owned(),
        target: ws.join(target),
        access,
    };
    let mut view = fixture.view();
    view.mounts = vec![
        mount(&ws.join(".git/objects"), ".git/objects", MountAccess::ReadOnly),
        mount(&own, ".git", MountAccess::Writable),
    ];
    let supervisor = crate::fixture::plain_supervisor().with_view(view.clone());
    let text = "cat .git/HEAD .git/objects/o; echo new > .git/HEAD
        touch .git/objects/x 2>/dev/null || echo ' read-only'";
    let ran = run(&supervisor, fixture.sh(text)).await.unwrap();
    assert_eq!(ran.stdout, "ownobject read-only\n", "{ran:?}");
    assert_eq!(fs::read_to_string(own.join("HEAD")).unwrap(), "new\n");
    assert!(!fixture.ws.join(".git/HEAD").exists());
    view.mounts[0].target = ws.join("missing");
    let missing = crate::fixture::plain_supervisor().with_view(view);
    let error = run(&missing, fixture.sh("true")).await.unwrap_err();
    let SpawnError::View { reason, .. } = error else { panic!("{error}") };
    assert!(!reason.is_unsupported() && reason.to_string().contains("/missing`"), "{reason}");
}

#[tokio::test]
async fn any_name_and_any_length_will_do() {
    let long = |letter: &str| letter.repeat(250);
    let deep = (0..12).map(|_| long("d")).collect::<Vec<_>>().join("/");
    let names = [
        std::ffi::OsStr::new("a:b,c=d\\e f\tg'h\"i\nj"),
        "ü ß".as_ref(),
        std::ffi::OsStr::from_bytes(b"\xff\xfe:\x80"),
        deep.as_ref(),
    ];
    for name in names {
        let mut fixture = Fixture::named(name.as_ref(), &Path::new("s").join(name));
        for layer in 0..4 {
            let layer = fixture.overlay.upper.with_file_name(format!("{layer}:,"));
            fs::create_dir(&layer).unwrap();
            fs::write(layer.join("seen"), "seen").unwrap();
            fixture.overlay.layers.insert(0, layer);
        }
        assert_eq!(fixture.script("cat seen; echo x > written").await, "seen", "{name:?}");
        assert!(fixture.overlay.upper.join("written").exists());
    }
}

#[tokio::test]
async fn a_folder_of_a_layer_is_renamed_as_between_file_systems() {
    let fixture = Fixture::new();
    require("perl", "perl");
    fs::create_dir_all(fixture.ws.join("d/e")).unwrap();
    fs::write(fixture.ws.join("d/e/f"), "f").unwrap();
    let text = "mkdir new; mv new renamed; perl -e 'rename(\"d\", \"x\") or print $!+0, qq(\\n)'
        mv d moved; cat moved/e/f; [ ! -e d ]";
    assert_eq!(
        fixture.script(text).await,
        format!("{}\nf", rustix::io::Errno::XDEV.raw_os_error())
    );
}

#[tokio::test]
async fn one_overlay_can_lie_in_another() {
    let fixture = Fixture::new();
    let home = fixture.folder("");
    fs::write(fixture.ws.join("w"), "w").unwrap();
    fs::write(home.join("h"), "h").unwrap();
    let other = tempfile::tempdir().unwrap();
    let store = other.path().canonicalize().unwrap();
    let (upper, work) = (store.join("upper"), store.join("work"));
    fs::create_dir(&upper).unwrap();
    fs::create_dir(&work).unwrap();
    let mut view = fixture.view();
    let outer = ralph_orchestrator_supervisor::Overlay {
        target: home.clone(),
        layers: vec![home.clone()],
        upper: upper.clone(),
        work: work.clone(),
    };
    view.overlays.push(outer);
    let supervisor = crate::fixture::plain_supervisor().with_view(view);
    let ran = run(&supervisor, fixture.sh("cat w ../h; touch x ../y")).await.unwrap();
    assert_eq!(ran.stdout, "wh", "{ran:?}");
    assert!(fixture.overlay.upper.join("x").exists() && upper.join("y").exists());
    assert!(!fixture.ws.join("x").exists() && !home.join("y").exists());
    ralph_orchestrator_safe_fs::remove_layer(&work).unwrap();
}

#[tokio::test]
async fn the_files_of_others_are_as_accessible_as_before() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let file = fixture.ws.join("theirs");
    fs::write(&file, "theirs").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    chown(&file, Some(54321), Some(54322)).unwrap();
    let text = "cat theirs; echo >> theirs; stat -c ' %u %g %a' theirs; chown 7:8 theirs
        setpriv --reuid 54321 --clear-groups cat theirs 2>/dev/null || echo denied";
    assert_eq!(fixture.script(text).await, "theirs 54321 54322 600\ndenied\n");
    let upper = fs::metadata(fixture.overlay.upper.join("theirs")).unwrap();
    assert_eq!((upper.uid(), upper.gid()), (7, 8));
    assert_eq!(fs::metadata(&file).unwrap().uid(), 54321);
}

#[tokio::test]
async fn a_user_without_privileges_can_read_the_files_of_others_and_not_change_them() {
    if !is_root() {
        return;
    }
    let (fixture, user) = (Fixture::new(), 54321);
    let own_shim = fixture.folder.path().join("shim");
    fs::copy(shim(), &own_shim).unwrap();
    for path in [fixture.folder.path(), &own_shim] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let theirs = fixture.ws.join("theirs");
    fs::write(&theirs, "theirs").unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o666)).unwrap();
    for path in [&fixture.ws, &fixture.overlay.upper, &fixture.overlay.work] {
        chown(path, Some(user), Some(user)).unwrap();
    }
    let as_user = ["--reuid=54321", "--regid=54321", "--clear-groups"].map(Into::into);
    let args = as_user.into_iter().chain([own_shim.into()]).collect();
    let supervisor =
        Supervisor::new(require("setpriv", "util-linux"), args).with_view(fixture.view());
    let text = "cat theirs; stat -c ' %u %g' theirs; (echo x >> theirs) 2>/dev/null || echo refused
        rm theirs; echo own > theirs; cat theirs; stat -c %u theirs";
    let ran = run(&supervisor, fixture.sh(text)).await.unwrap();
    assert_eq!(ran.stdout, "theirs 65534 65534\nrefused\nown\n54321\n", "{ran:?}");
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
}

#[tokio::test]
async fn modes_hold_for_who_is_not_the_superuser() {
    if is_root() {
        return;
    }
    let fixture = Fixture::new();
    let file = fixture.ws.join("closed");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o0)).unwrap();
    let text = "cat closed 2>/dev/null || echo denied; mkdir d; chmod 0 d; ls d 2>/dev/null || echo denied";
    assert_eq!(fixture.script(text).await, "denied\ndenied\n");
    ralph_orchestrator_safe_fs::remove_layer(&fixture.overlay.upper).unwrap();
}
