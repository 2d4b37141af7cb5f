//! The prompt: whole or not at all.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ralph_orchestrator_workspace::{Prompt, PromptError, PromptPlace};

use crate::support::Workspace;

fn read_prompt(path: &Path) -> Result<Prompt, PromptError> {
    PromptPlace::locate(path).read()
}

fn restore_prompt(path: &Path, bytes: &[u8]) -> Result<(), PromptError> {
    let place = PromptPlace::recorded(path.to_owned(), path.to_owned(), None);
    place.restore(bytes, path.parent().unwrap())
}

#[test]
fn a_prompt_is_read_as_it_is() {
    let ws = Workspace::new();
    for content in [b"".as_slice(), b"do it\n", b"\xff\xfe\0 bytes", &[b'x'; 200_000]] {
        ws.write("PROMPT.md", content);
        let prompt = read_prompt(&ws.path("PROMPT.md")).unwrap();
        assert_eq!(prompt.bytes, content);
        assert_eq!(prompt.text, String::from_utf8_lossy(content));
        assert_eq!(prompt.digest, blake3::hash(content).to_hex().to_string());
    }
    ws.link("link", "PROMPT.md");
    assert_eq!(read_prompt(&ws.path("link")).unwrap().bytes.len(), 200_000);
}

#[test]
fn what_is_no_prompt_is_named() {
    let ws = Workspace::new();
    ws.fifo("pipe").link("loop", "loop").link("dangling", "nowhere").write("file", "x");
    let _socket = std::os::unix::net::UnixListener::bind(ws.path("socket")).unwrap();
    std::fs::File::create(ws.path("large")).unwrap().set_len(8 * 1024 * 1024 + 1).unwrap();
    std::fs::File::create(ws.path("limit")).unwrap().set_len(8 * 1024 * 1024).unwrap();
    let error = |name: &str| {
        let error = read_prompt(&ws.path(name)).unwrap_err();
        assert!(error.to_string().contains(ws.path(name).to_str().unwrap()), "{error}");
        error
    };
    assert!(matches!(error("missing"), PromptError::NotFound { .. }));
    assert!(matches!(error("dangling"), PromptError::Link { .. }));
    assert!(matches!(error("file/x"), PromptError::NotFound { .. }));
    assert!(matches!(error("pipe"), PromptError::NotAFile { .. }));
    assert!(matches!(error("socket"), PromptError::NotAFile { .. }));
    assert!(matches!(error("."), PromptError::NotAFile { .. }));
    assert!(matches!(error("loop"), PromptError::Link { .. }));
    assert!(matches!(error("large"), PromptError::TooLarge { bytes: 8_388_609, .. }));
    assert_eq!(read_prompt(&ws.path("limit")).unwrap().bytes.len(), 8 * 1024 * 1024);
}

/// The content of one version: as long as `pieces`, all of one letter.
fn version(round: u64) -> Vec<u8> {
    vec![b'a' + u8::try_from(round % 26).unwrap(); 64 * 100]
}

#[test]
fn a_prompt_rewritten_in_small_pieces_is_never_torn() {
    let ws = Workspace::new();
    ws.write("PROMPT.md", version(0));
    let path = ws.path("PROMPT.md");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 1;
            while !stop.load(Ordering::Relaxed) {
                let mut file = std::fs::File::create(&path).unwrap();
                for piece in version(round).chunks(64) {
                    file.write_all(piece).unwrap();
                    // An agent's pace: the pause is part of what is tested.
                    std::thread::sleep(Duration::from_micros(500));
                }
                drop(file);
                // Long enough for a reader to find it at rest.
                std::thread::park_timeout(Duration::from_millis(150));
                round += 1;
            }
        });
        let mut read = 0;
        for _ in 0..12 {
            match read_prompt(&path) {
                Ok(prompt) => {
                    let first = prompt.bytes.first().copied().unwrap();
                    assert_eq!(prompt.bytes.len(), 6400);
                    assert!(prompt.bytes.iter().all(|byte| *byte == first));
                    read += 1;
                }
                Err(PromptError::Unstable { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(read > 0);
    });
}

#[test]
fn a_prompt_written_just_now_is_not_waited_for() {
    let ws = Workspace::new();
    let path = ws.path("PROMPT.md");
    // The shortest of many: others use this machine as well.
    let shortest = (0..20)
        .map(|round| {
            ws.write("PROMPT.md", version(round));
            let begin = std::time::Instant::now();
            read_prompt(&path).unwrap();
            begin.elapsed()
        })
        .min()
        .unwrap();
    assert!(shortest < Duration::from_millis(40), "{shortest:?}");
}

#[test]
fn a_prompt_that_was_read_whole_is_not_waited_for_until_it_changes() {
    let ws = Workspace::new();
    ws.write("PROMPT.md", "whole");
    let path = ws.path("PROMPT.md");
    let place = PromptPlace::locate(&path);
    assert_eq!(place.read().unwrap().text, "whole");
    let mut writer = std::fs::File::options().append(true).open(&path).unwrap();
    assert_eq!(place.read().unwrap().text, "whole", "it has not changed");
    writer.write_all(b" and mo").unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| place.read().unwrap().text);
        writer.write_all(b"re").unwrap();
        drop(writer);
        assert_eq!(reader.join().unwrap(), "whole and more", "what changed is waited for");
    });
}

#[test]
fn a_prompt_that_its_maker_vouches_for_is_read_at_once_until_it_changes() {
    let ws = Workspace::new();
    let path = ws.path("PROMPT.md");
    let place = PromptPlace::locate(&path);
    // There is nothing to vouch for.
    place.accept_as_whole();
    assert!(matches!(place.read(), Err(PromptError::NotFound { .. })));
    let mut maker = std::fs::File::create(&path).unwrap();
    maker.write_all(b"whole").unwrap();
    place.accept_as_whole();
    // The maker has it open still, which anybody else would be waited for.
    assert_eq!(place.read().unwrap().text, "whole");
    maker.write_all(b" and mo").unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| place.read().unwrap().text);
        maker.write_all(b"re").unwrap();
        drop(maker);
        assert_eq!(reader.join().unwrap(), "whole and more", "another content is waited for");
    });
}

#[test]
fn a_prompt_that_never_rests_is_given_up() {
    let ws = Workspace::new();
    ws.write("PROMPT.md", "x");
    let path = ws.path("PROMPT.md");
    let stop = AtomicBool::new(false);
    let begun = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            file.write_all(b"y").unwrap();
            begun.wait();
            while !stop.load(Ordering::Relaxed) {
                file.write_all(b"y").unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        begun.wait();
        let result = read_prompt(&path);
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(result, Err(PromptError::Unstable { .. })), "{result:?}");
    });
}

/// A writer that pauses for longer than any two looks are apart, and has not written all.
#[test]
fn a_prompt_is_not_read_half_way_while_its_writer_pauses() {
    let ws = Workspace::new();
    let path = ws.path("PROMPT.md");
    let (changed_tx, changed_rx) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let changed_tx = changed_tx;
            for round in 0..10 {
                let mut file = std::fs::File::create(&path).unwrap();
                file.write_all(&version(round)[..3200]).unwrap();
                changed_tx.send(()).unwrap();
                // The pause is what is tested.
                std::thread::sleep(Duration::from_millis(25));
                file.write_all(&version(round)[3200..]).unwrap();
                drop(file);
                changed_tx.send(()).unwrap();
            }
        });
        while changed_rx.recv().is_ok() {
            assert_eq!(read_prompt(&path).unwrap().bytes.len(), 6400);
            changed_rx.recv().unwrap();
        }
    });
}

#[test]
fn a_prompt_is_put_back() {
    let ws = Workspace::new();
    let path = ws.path("sub/PROMPT.md");
    restore_prompt(&path, b"one").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"one");
    ws.mode("sub/PROMPT.md", 0o600);
    restore_prompt(&path, b"two").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(ws.path("sub")).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn a_link_is_followed_when_its_place_is_found_and_never_again() {
    let ws = Workspace::new();
    ws.write("real/task.md", "task").write("secret", "secret").link("PROMPT.md", "real/task.md");
    let place = PromptPlace::locate(&ws.path("PROMPT.md"));
    assert_eq!(place.configured(), ws.path("PROMPT.md"));
    assert_eq!(place.file(), ws.path("real/task.md"));
    // Led elsewhere, it does not matter any more.
    std::fs::remove_file(ws.path("PROMPT.md")).unwrap();
    ws.link("PROMPT.md", "secret");
    assert_eq!(place.read().unwrap().bytes, b"task");
    place.restore(b"again", &ws.root()).unwrap();
    assert_eq!(std::fs::read(ws.path("real/task.md")).unwrap(), b"again");
    assert_eq!(std::fs::read(ws.path("secret")).unwrap(), b"secret");
    // Nor does a link in the place of the file or of its folder.
    std::fs::remove_file(ws.path("real/task.md")).unwrap();
    ws.link("real/task.md", "../secret");
    assert!(matches!(place.read(), Err(PromptError::Link { .. })));
    assert!(matches!(place.verify(), Err(PromptError::Link { .. })));
    assert_eq!(place.read_now(), None);
    place.restore(b"file", &ws.root()).unwrap();
    assert_eq!(std::fs::read(ws.path("secret")).unwrap(), b"secret");
    assert_eq!(place.read().unwrap().bytes, b"file");
    std::fs::rename(ws.path("real"), ws.path("moved")).unwrap();
    ws.link("real", "moved");
    assert!(matches!(place.read(), Err(PromptError::Link { .. })));
    place.restore(b"folder", &ws.root()).unwrap();
    assert_eq!(std::fs::read(ws.path("moved/task.md")).unwrap(), b"file");
    assert_eq!(place.read().unwrap().bytes, b"folder");
    // Outside of the workspace a folder's link is nobody's to remove.
    std::fs::remove_dir_all(ws.path("real")).unwrap();
    ws.link("real", "moved");
    assert!(place.restore(b"x", &ws.path("elsewhere")).is_err());
    assert_eq!(std::fs::read(ws.path("moved/task.md")).unwrap(), b"file");
    assert!(ws.path("real").is_symlink());
}

#[test]
fn another_name_of_some_other_file_is_no_prompt() {
    let ws = Workspace::new();
    ws.write("PROMPT.md", "task").write("secret", "secret");
    let path = ws.path("PROMPT.md");
    let place = PromptPlace::locate(&path);
    std::fs::remove_file(&path).unwrap();
    std::fs::hard_link(ws.path("secret"), &path).unwrap();
    assert!(matches!(place.read(), Err(PromptError::HardLink { .. })));
    assert!(matches!(place.verify(), Err(PromptError::HardLink { .. })));
    assert_eq!(place.read_now(), None);
    place.restore(b"task", &ws.root()).unwrap();
    assert_eq!(std::fs::read(ws.path("secret")).unwrap(), b"secret");
    assert_eq!(place.read().unwrap().bytes, b"task");
    // One that had two names from the beginning may keep them.
    std::fs::hard_link(&path, ws.path("second")).unwrap();
    let place = PromptPlace::locate(&path);
    assert_eq!(place.read().unwrap().bytes, b"task");
    let recorded = PromptPlace::recorded(path.clone(), place.file().to_owned(), place.shared());
    std::fs::remove_file(&path).unwrap();
    std::fs::hard_link(ws.path("secret"), &path).unwrap();
    assert!(matches!(recorded.read(), Err(PromptError::HardLink { .. })));
}

#[test]
fn what_is_in_the_prompt_s_place_gives_way() {
    let ws = Workspace::new();
    ws.write("full/x", "x").link("loop", "loop").link("device", "/dev/null");
    ws.link("nowhere", "/nowhere/at/all");
    std::fs::create_dir(ws.path("empty")).unwrap();
    for name in ["full", "empty", "loop", "device", "nowhere"] {
        restore_prompt(&ws.path(name), name.as_bytes()).unwrap();
        assert_eq!(std::fs::read(ws.path(name)).unwrap(), name.as_bytes());
        assert!(!ws.path(name).is_symlink(), "{name}");
    }
    assert_eq!(std::fs::read(ws.path("full.1/x")).unwrap(), b"x", "nothing of it is lost");
    assert_eq!(std::fs::read_dir(ws.root()).unwrap().count(), 6);
    assert!(!Path::new("/nowhere").exists());
}

#[test]
fn what_cannot_be_put_back_is_named() {
    let ws = Workspace::new();
    ws.write("file", "x");
    let error = restore_prompt(&ws.path("file/PROMPT.md"), b"x").unwrap_err();
    assert!(error.to_string().contains("file/PROMPT.md"), "{error}");
    assert_eq!(std::fs::read_dir(ws.root()).unwrap().count(), 1);
}

#[test]
fn readers_see_the_old_or_the_new() {
    let ws = Workspace::new();
    ws.write("PROMPT.md", version(0));
    let path = ws.path("PROMPT.md");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                restore_prompt(&path, &version(round)).unwrap();
                round += 1;
            }
        });
        for _ in 0..300 {
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(bytes.len(), 6400);
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
        }
        stop.store(true, Ordering::Relaxed);
    });
}
