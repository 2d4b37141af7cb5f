//! What the tree digest sees of files.

use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ralph_orchestrator_workspace::{TreeError, TreeHasher};

use crate::support::Workspace;

#[test]
fn an_empty_workspace_has_a_digest() {
    let ws = Workspace::new();
    let state = ws.state();
    assert_eq!((state.files, state.bytes, state.hashed), (0, 0, 0));
    assert!(state.notes.is_empty() && state.unreadable.is_empty());
    assert!(!ws.changes(|ws| std::fs::create_dir_all(ws.path("a/b/c")).unwrap()));
    assert!(ws.changes(|ws| {
        ws.write("a/b/c/f", "");
    }));
}

#[test]
fn equal_content_has_equal_digests_wherever_it_lies() {
    let (one, other) = (Workspace::new(), Workspace::new());
    let names = ["b", "a/x", "a.b", "a-b", "a", "z/y/x", "ä"].map(|name| format!("f/{name}.txt"));
    for name in &names {
        one.write(name, name);
    }
    for name in names.iter().rev() {
        other.write(name, name);
    }
    assert_eq!(one.digest(), other.digest());
}

#[test]
fn every_kind_of_change_shows() {
    let ws = Workspace::new();
    ws.write("a", "1234").write("b", "5678").write("d/c", "x");
    assert!(ws.changes(|ws| ws.write("a", "1235").end()), "content");
    assert!(ws.changes(|ws| ws.mode("a", 0o755).end()), "executable");
    assert!(!ws.changes(|ws| ws.mode("b", 0o600).end()), "who may read is no content");
    assert!(ws.changes(|ws| std::fs::rename(ws.path("a"), ws.path("e")).unwrap()), "rename");
    assert!(ws.changes(|ws| ws.write("new", "").end()), "empty file added");
    assert!(ws.changes(|ws| ws.remove("new").end()), "removed");
    assert!(
        ws.changes(|ws| {
            ws.remove("b");
            std::fs::create_dir(ws.path("b")).unwrap();
        }),
        "file becomes folder"
    );
    assert!(ws.changes(|ws| ws.write("b/f", "5678").end()), "file in it");
    assert!(
        ws.changes(|ws| {
            ws.remove("d/c");
            std::fs::remove_dir(ws.path("d")).unwrap();
            ws.write("d", "x");
        }),
        "folder becomes file"
    );
    assert!(ws.changes(|ws| ws.remove("d").link("d", "e").end()), "file becomes link");
    assert!(ws.changes(|ws| ws.remove("d").link("d", "./e").end()), "link leads elsewhere");
    assert!(ws.changes(|ws| ws.remove("d").fifo("d").end()), "link becomes pipe");
}

#[test]
fn names_and_contents_cannot_be_confused() {
    // The same bytes, cut differently into names and contents.
    let (one, other) = (Workspace::new(), Workspace::new());
    one.write("a", "bc").write("d", "");
    other.write("a", "b").write("cd", "");
    assert_ne!(one.digest(), other.digest());
    let swapped = Workspace::new();
    swapped.write("a", "").write("d", "bc");
    assert_ne!(one.digest(), swapped.digest());
}

#[test]
fn times_and_identity_are_no_content() {
    let ws = Workspace::new();
    ws.write("a", "1234");
    assert!(!ws.changes(|ws| ws.write("a", "1234").end()), "rewritten");
    assert!(!ws.changes(|ws| ws.remove("a").write("a", "1234").end()), "another inode");
    assert!(!ws.changes(|ws| {
        let file = std::fs::File::options().write(true).open(ws.path("a")).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }));
}

#[test]
fn a_same_size_rewrite_with_its_time_put_back_shows() {
    let ws = Workspace::new();
    ws.write("a", "1234");
    let mut hasher = ws.hasher();
    let before = hasher.digest().unwrap();
    let modified = std::fs::metadata(ws.path("a")).unwrap().modified().unwrap();
    ws.write("a", "5678");
    std::fs::File::options()
        .write(true)
        .open(ws.path("a"))
        .unwrap()
        .set_modified(modified)
        .unwrap();
    assert_ne!(hasher.digest().unwrap().digest, before.digest);
}

#[test]
fn names_may_be_any_bytes() {
    let ws = Workspace::new();
    let names: [&[u8]; 6] = [b"\xff\xfe", b"new\nline", b"\x01", b" ", b"*", b"\\"];
    for name in names {
        ws.write([b"d/", name].concat(), name);
    }
    assert_eq!(ws.state().files, 6);
    for name in names {
        let path = [b"d/", name].concat();
        assert!(ws.changes(|ws| ws.write(&path, "other").end()), "{name:?}");
        assert!(ws.changes(|ws| ws.remove(&path).end()), "{name:?}");
    }
    assert!(ws.changes(|ws| ws.write(b"a\xff", "").end()));
    assert!(ws.changes(|ws| {
        std::fs::rename(ws.path(b"a\xff"), ws.path(b"a\xfe")).unwrap();
    }));
}

#[test]
fn links_are_not_followed() {
    let ws = Workspace::new();
    std::fs::create_dir(ws.beside("outside")).unwrap();
    std::fs::write(ws.beside("outside/f"), "1").unwrap();
    ws.write("d/f", "x").link("loop", "loop").link("up", "..").link("d/self", ".");
    ws.link("out", "../outside").link("dangling", "nowhere");
    assert_eq!(ws.paths(), ["d/f", "d/self", "dangling", "loop", "out", "up"]);
    assert!(!ws.changes(|ws| std::fs::write(ws.beside("outside/f"), "2").unwrap()));
}

#[test]
fn pipes_and_sockets_count_by_kind_and_are_not_opened() {
    let ws = Workspace::new();
    ws.fifo("pipe").fifo(".gitignore").fifo("sub");
    let listener = std::os::unix::net::UnixListener::bind(ws.path("socket")).unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(ws.paths(), [".gitignore", "pipe", "socket", "sub"]);
    assert_eq!(ws.state().bytes, 0);
    // Nobody connected, and nobody opened the pipe for reading: a writer would not have to wait.
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
    let writer =
        std::fs::OpenOptions::new().write(true).custom_flags(nonblock).open(ws.path("pipe"));
    assert_eq!(writer.unwrap_err().raw_os_error(), Some(rustix::io::Errno::NXIO.raw_os_error()));
    drop(listener);
    assert!(ws.changes(|ws| ws.remove("socket").fifo("socket").end()));
}

#[test]
fn pipes_in_place_of_gits_files_stop_nobody() {
    let ws = Workspace::with_git();
    ws.write("f", "x");
    for file in [".git/index", ".git/info/exclude", ".git/commondir"] {
        let _ = std::fs::remove_file(ws.path(file));
        ws.fifo(file);
    }
    let state = ws.state();
    assert_eq!(state.files, 1);
    assert!(!state.notes.is_empty());
}

#[test]
fn what_never_counts() {
    let ws = Workspace::new();
    ws.write("f", "x");
    let before = ws.digest();
    ws.write(".git/config", "x").write("other/.git", "gitdir: x");
    ws.write("sub/.git/HEAD", "x").write("sub/.git/objects/0f/1", "x").write("sub/.git/index", "x");
    ws.write(".ralph/memory.md", "x");
    assert_eq!(ws.digest(), before);
    assert!(ws.changes(|ws| ws.write("sub/.ralph/x", "x").end()), "only at the top");
    assert!(ws.changes(|ws| ws.write(".github/x", "x").end()));
    assert!(ws.changes(|ws| ws.write("x.git/x", "x").end()));
}

/// Code in the folder of a tool is work, what the tool keeps there is none.
#[test]
fn no_folder_of_a_tool_hides_code() {
    const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n";
    let ws = Workspace::with_git();
    ws.write("repo/.git/HEAD", "x").write("repo/.git/objects/0f/1", "x").write("src/a.py", "1");
    ws.write(".pytest_cache/CACHEDIR.TAG", TAG).write("target/CACHEDIR.TAG", TAG);
    ws.git(&["add", "src"]);
    for (path, counts) in [
        ("src/.git/0.sh", true),
        ("src/.git/HEAD", true),
        ("repo/.git/0.sh", true),
        ("repo/.git/FETCH_HEAD", false),
        ("repo/.git/objects/0e/1", false),
        ("src/__pycache__/a.py", true),
        ("src/__pycache__/a.so", true),
        ("src/__pycache__/b/a.pyc", true),
        ("src/__pycache__/a.cpython-312.pyc", false),
        ("src/__pycache__/a.f-1.py312.nbi", false),
        (".pytest_cache/0.sh", true),
        (".pytest_cache/v/cache/0.sh", true),
        (".pytest_cache/v/cache/nodeids", false),
        ("target/debug/app", false),
    ] {
        assert_eq!(ws.changes(|ws| ws.write(path, "x").end()), counts, "{path}");
        ws.remove(path);
    }
    // A folder of work that is marked as a cache stays one of work.
    ws.write("src/CACHEDIR.TAG", TAG);
    assert!(ws.changes(|ws| ws.write("src/evil.py", "x").end()));
}

/// New data in a cache are named by the folder, which then stands for no code in it.
#[test]
fn a_cache_that_a_validator_left_hides_no_code() {
    let ws = Workspace::new();
    let mut hasher = TreeHasher::new(ws.root(), Vec::new());
    let before = hasher.snapshot().unwrap();
    ws.write(".pytest_cache/README.md", "1").write(".pytest_cache/v/cache/nodeids", "1");
    ws.write(".pytest_cache/0.sh", "1");
    let now = hasher.snapshot().unwrap();
    let named = before.summarize_added(&before.diff(&now).added);
    assert_eq!(named, [".pytest_cache", ".pytest_cache/0.sh"].map(std::path::PathBuf::from));
    ws.remove(".pytest_cache/0.sh");
    hasher.set_artefacts([".pytest_cache".into()]);
    let work = hasher.digest().unwrap().work;
    ws.write(".pytest_cache/v/cache/nodeids", "2");
    assert_eq!(hasher.digest().unwrap().work, work);
    ws.write(".pytest_cache/0.sh", "2");
    assert_ne!(hasher.digest().unwrap().work, work);
}

#[test]
fn the_callers_paths_do_not_count() {
    let ws = Workspace::new();
    ws.write("f", "x").write("evidence/a", "1").write("PROMPT.md", "1").write("evidence2", "1");
    let exclude = vec![ws.path("evidence"), ws.path("PROMPT.md"), ws.beside("elsewhere")];
    let digest = || TreeHasher::new(ws.root(), exclude.clone()).digest().unwrap();
    let before = digest();
    assert_eq!(before.files, 2);
    assert!(before.notes.is_empty());
    ws.write("evidence/b/c", "2").write("PROMPT.md", "2");
    assert_eq!(digest().digest, before.digest);
    // A link in place of the excluded folder excludes nothing else.
    std::fs::remove_dir_all(ws.path("evidence")).unwrap();
    ws.link("evidence", "src").write("src/main.rs", "1");
    let linked = digest();
    assert_eq!(linked.files, 3);
    ws.write("src/main.rs", "2");
    assert_ne!(digest().digest, linked.digest);
}

#[test]
fn a_workspace_is_found_through_links_and_cannot_be_excluded_as_a_whole() {
    let ws = Workspace::new();
    ws.write("f", "x").write("e/x", "x");
    std::os::unix::fs::symlink(ws.root(), ws.beside("link")).unwrap();
    let mut through = TreeHasher::new(ws.beside("link"), vec![ws.path("e")]);
    let mut direct = TreeHasher::new(ws.root(), vec![ws.beside("link/e")]);
    assert_eq!(through.digest().unwrap().digest, direct.digest().unwrap().digest);
    let mut whole = TreeHasher::new(ws.root(), vec![ws.root(), ws.beside("")]);
    let state = whole.digest().unwrap();
    assert_eq!(state.files, 2);
    assert_eq!(state.notes.len(), 2, "{:?}", state.notes);
}

#[test]
fn a_missing_workspace_is_named() {
    let ws = Workspace::new();
    ws.write("f", "x");
    for path in [ws.path("missing"), ws.path("f")] {
        let error = TreeHasher::new(path.clone(), Vec::new()).digest().unwrap_err();
        assert!(matches!(error, TreeError::Workspace { .. }));
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn deep_and_branching_trees_are_walked() {
    let ws = Workspace::new();
    let mut path = ws.root();
    // Beyond what is kept open, with a second branch at each level to come back to.
    for level in 0..150 {
        for branch in ["a", "m", "z"] {
            std::fs::create_dir(path.join(branch)).unwrap();
            std::fs::write(path.join(branch).join("f"), format!("{level}")).unwrap();
        }
        path.push("m");
    }
    let state = ws.state();
    assert_eq!(state.files, 450);
    assert!(state.unreadable.is_empty());
    let last = path.parent().unwrap().join("z/f");
    assert!(ws.changes(|_| std::fs::write(&last, "other").unwrap()));
}

#[test]
fn a_tree_without_bottom_is_cut_and_reported() {
    let ws = Workspace::new();
    // Longer than any path that the system accepts.
    let name = "n".repeat(200);
    let mut folder =
        rustix::fs::open(ws.root(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..1100 {
        rustix::fs::mkdirat(&folder, &name, rustix::fs::Mode::RWXU).unwrap();
        folder =
            rustix::fs::openat(&folder, &name, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty())
                .unwrap();
    }
    let (one, other) = (ws.state(), ws.state());
    assert_eq!(one.digest, other.digest);
    assert_eq!(one.unreadable.len(), 1);
    assert!(one.notes.iter().any(|note| note.contains("too deep")), "{}", one.notes.len());
    // Removing it from the top down would take more open files than there may be.
    let (top, spare) = (ws.path(&name), ws.path("spare"));
    while std::fs::rename(top.join(&name), &spare).is_ok() {
        std::fs::remove_dir(&top).unwrap();
        std::fs::rename(&spare, &top).unwrap();
    }
}

/// Runs `write` again and again in another thread while `check` runs.
fn meanwhile<T>(write: impl Fn(u64) + Send + Sync, check: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let (first, wait) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                write(round);
                round += 1;
                if round == 3 {
                    first.send(()).unwrap();
                }
            }
        });
        wait.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        stop.store(true, Ordering::Relaxed);
        result
    })
    .unwrap()
}

#[test]
fn a_file_that_is_being_written_has_no_stable_digest() {
    let ws = Workspace::new();
    ws.write("big", "").write("f", "x");
    // Large enough that nobody reads it between two writes.
    std::fs::File::options().write(true).open(ws.path("big")).unwrap().set_len(64 << 20).unwrap();
    let big = ws.path("big");
    let states = meanwhile(
        |round| {
            use std::os::unix::fs::FileExt as _;
            let file = std::fs::File::options().write(true).open(&big).unwrap();
            file.write_at(&round.to_le_bytes(), 32 << 20).unwrap();
        },
        || {
            let mut hasher = ws.hasher();
            let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
            let mut unstable = Vec::new();
            while unstable.len() < 2 && std::time::Instant::now() < limit {
                let state = hasher.digest().unwrap();
                if !state.stable {
                    unstable.push(state);
                }
            }
            unstable
        },
    );
    assert_eq!(states.len(), 2);
    assert_ne!(states[0].digest, states[1].digest);
    assert!(states[0].notes[0].contains("big"), "{:?}", states[0].notes);
    assert!(ws.state().stable);
}

#[test]
fn files_coming_and_going_never_hide_the_others() {
    let ws = Workspace::new();
    for i in 0..100 {
        ws.write(format!("d/{i}"), "x");
    }
    let root = ws.root();
    meanwhile(
        |round| {
            let path = root.join(format!("d/temporary{}", round % 7));
            std::fs::write(&path, "x").unwrap();
            std::fs::create_dir_all(root.join("d/sub/sub")).unwrap();
            std::fs::remove_dir_all(root.join("d/sub")).unwrap();
            std::fs::remove_file(path).unwrap();
        },
        || {
            let mut hasher = ws.hasher();
            for _ in 0..20 {
                assert!(hasher.digest().unwrap().files >= 100);
            }
        },
    );
    let state = ws.state();
    assert_eq!((state.files, state.stable), (100, true));
}

#[test]
fn a_digest_can_be_cancelled() {
    let ws = Workspace::new();
    ws.write("f", "x");
    let flag = Arc::new(AtomicBool::new(true));
    let mut hasher = ws.hasher().cancelled_by(Arc::clone(&flag));
    assert!(matches!(hasher.digest(), Err(TreeError::Cancelled)));
    flag.store(false, Ordering::Relaxed);
    assert_eq!(hasher.digest().unwrap().digest, ws.state().digest);
}

#[test]
fn looking_writes_nothing() {
    let ws = Workspace::with_git();
    ws.write("f", "x").write("d/.gitignore", "*.o");
    ws.git(&["add", "-A"]);
    let list = || {
        let mut all = Vec::new();
        let mut folders = vec![ws.root()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() {
                    folders.push(entry.path());
                }
                all.push((entry.path(), metadata.modified().unwrap(), metadata.len()));
            }
        }
        all
    };
    let before = list();
    ws.state();
    assert_eq!(list(), before);
}
