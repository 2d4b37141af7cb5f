//! What the watch on the prompt notices.

use std::path::Path;
use std::time::Duration;

use ralph_orchestrator_workspace::PromptWatch;

use crate::support::Workspace;

type Edit = (&'static str, fn(&Path));

/// Longer than any of the watch's own intervals.
const BOUND: Duration = Duration::from_secs(10);

async fn sees(watch: &mut PromptWatch) -> bool {
    tokio::time::timeout(BOUND, watch.changed()).await.is_ok()
}

/// Takes in all that was to be told.
async fn settle(watch: &mut PromptWatch) {
    while tokio::time::timeout(Duration::from_millis(1300), watch.changed()).await.is_ok() {}
}

#[tokio::test]
async fn every_way_to_touch_the_file_is_seen() {
    let ws = Workspace::new();
    ws.write("PROMPT.md", "1");
    let path = ws.path("PROMPT.md");
    let edits: [Edit; 6] = [
        ("write", |path| std::fs::write(path, "2").unwrap()),
        ("same content", |path| std::fs::write(path, "2").unwrap()),
        ("append", |path| {
            use std::io::Write as _;
            let mut file = std::fs::File::options().append(true).open(path).unwrap();
            file.write_all(b"3").unwrap();
        }),
        ("rename over", |path| {
            let other = path.with_extension("tmp");
            std::fs::write(&other, "4").unwrap();
            std::fs::rename(other, path).unwrap();
        }),
        ("delete", |path| std::fs::remove_file(path).unwrap()),
        ("create", |path| std::fs::write(path, "5").unwrap()),
    ];
    for (name, edit) in edits {
        let mut watch = PromptWatch::new(&path);
        // Before the first wait as well.
        edit(&path);
        assert!(sees(&mut watch).await, "{name}");
    }
    // And all with one watch.
    let mut watch = PromptWatch::new(&path);
    for (name, edit) in edits {
        edit(&path);
        assert!(sees(&mut watch).await, "{name}");
    }
}

#[tokio::test]
async fn nothing_happens_when_nothing_happened() {
    let ws = Workspace::new();
    ws.write("PROMPT.md", "1");
    let mut watch = PromptWatch::new(&ws.path("PROMPT.md"));
    ws.write("other", "x").write("PROMPT.md.swp", "x");
    std::fs::read(ws.path("PROMPT.md")).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(1500), watch.changed()).await.is_err());
}

#[tokio::test]
async fn a_wait_that_is_dropped_loses_nothing() {
    let ws = Workspace::new();
    ws.write("PROMPT.md", "1");
    let mut watch = PromptWatch::new(&ws.path("PROMPT.md"));
    for _ in 0..50 {
        assert!(tokio::time::timeout(Duration::ZERO, watch.changed()).await.is_err());
    }
    ws.write("PROMPT.md", "2");
    let seen = async {
        while tokio::time::timeout(Duration::from_millis(5), watch.changed()).await.is_err() {}
    };
    assert!(tokio::time::timeout(BOUND, seen).await.is_ok());
}

#[tokio::test]
async fn polling_goes_on_through_waits_that_are_dropped() {
    let ws = Workspace::new();
    // Without its folder there is nothing to be told of.
    let mut watch = PromptWatch::new(&ws.path("sub/PROMPT.md"));
    ws.write("sub/PROMPT.md", "1");
    let seen = async {
        while tokio::time::timeout(Duration::from_millis(5), watch.changed()).await.is_err() {}
    };
    assert!(tokio::time::timeout(BOUND, seen).await.is_ok());
    ws.write("sub/PROMPT.md", "22");
    assert!(sees(&mut watch).await);
    ws.remove("sub/PROMPT.md");
    assert!(sees(&mut watch).await);
}

#[tokio::test]
async fn a_folder_deleted_and_created_again_is_followed() {
    let ws = Workspace::new();
    ws.write("sub/PROMPT.md", "1");
    let mut watch = PromptWatch::new(&ws.path("sub/PROMPT.md"));
    std::fs::remove_dir_all(ws.path("sub")).unwrap();
    assert!(sees(&mut watch).await);
    settle(&mut watch).await;
    ws.write("sub/PROMPT.md", "2");
    assert!(sees(&mut watch).await);
    settle(&mut watch).await;
    ws.write("sub/PROMPT.md", "33");
    assert!(sees(&mut watch).await);
}

#[tokio::test]
async fn a_folder_moved_away_is_noticed() {
    let ws = Workspace::new();
    ws.write("a/sub/PROMPT.md", "1");
    let mut watch = PromptWatch::new(&ws.path("a/sub/PROMPT.md"));
    // Further up: nothing tells of it but the comparison.
    std::fs::rename(ws.path("a"), ws.path("b")).unwrap();
    assert!(sees(&mut watch).await);
    settle(&mut watch).await;
    ws.write("a/sub/PROMPT.md", "22");
    assert!(sees(&mut watch).await);
}

#[tokio::test]
async fn what_a_link_leads_to_is_watched() {
    let ws = Workspace::new();
    ws.write("real/task.md", "1").write("other/task.md", "1").link("PROMPT.md", "real/task.md");
    let mut watch = PromptWatch::new(&ws.path("PROMPT.md"));
    ws.write("real/task.md", "2");
    assert!(sees(&mut watch).await);
    ws.remove("PROMPT.md").link("PROMPT.md", "other/task.md");
    assert!(sees(&mut watch).await);
    settle(&mut watch).await;
    ws.write("other/task.md", "2");
    assert!(sees(&mut watch).await);
}

#[tokio::test]
async fn a_flood_of_events_is_survived() {
    let ws = Workspace::new();
    ws.write("PROMPT.md", "1");
    let mut watch = PromptWatch::new(&ws.path("PROMPT.md"));
    // More than the system queues: the overflow counts as a change.
    for i in 0..6_000 {
        let path = ws.path(format!("f{}", i % 10));
        std::fs::write(&path, "x").unwrap();
        std::fs::remove_file(&path).unwrap();
    }
    assert!(sees(&mut watch).await);
    settle(&mut watch).await;
    ws.write("PROMPT.md", "2");
    assert!(sees(&mut watch).await);
}

#[tokio::test]
async fn a_watch_that_is_restarted_tells_what_happens_from_then_on() {
    let ws = Workspace::new();
    ws.write("sub/PROMPT.md", "1");
    let path = ws.path("sub/PROMPT.md");
    let mut watch = PromptWatch::new(&path);
    for round in 0..3 {
        // What happened between is no news, also before the first wait.
        std::fs::write(&path, format!("between {round}")).unwrap();
        watch.restart();
        let quiet = tokio::time::timeout(Duration::from_millis(300), watch.changed()).await;
        assert!(quiet.is_err(), "round {round}");
        std::fs::write(&path, format!("during {round}")).unwrap();
        assert!(sees(&mut watch).await, "round {round}");
        // Another folder of the same name.
        std::fs::rename(ws.path("sub"), ws.path(format!("old{round}"))).unwrap();
        ws.write("sub/PROMPT.md", "new");
        watch.restart();
        std::fs::write(&path, "in the new folder").unwrap();
        assert!(sees(&mut watch).await, "the new folder in round {round}");
        // A link in its place, and the file that it leads to.
        std::fs::rename(&path, ws.path(format!("real{round}"))).unwrap();
        std::os::unix::fs::symlink(ws.path(format!("real{round}")), &path).unwrap();
        watch.restart();
        std::fs::write(ws.path(format!("real{round}")), "behind the link").unwrap();
        assert!(sees(&mut watch).await, "behind the link in round {round}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "a file again").unwrap();
        watch.restart();
    }
}
