//! How programs end.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ralph_orchestrator_contract::{ErrorClass, Event};
use serde_json::json;

use crate::support::{Place, Sink, Then};

#[tokio::test]
async fn exit_0_makes_the_output_the_final_text() {
    let place = Place::new();
    let sink = Sink::new();
    let report = place.shell("echo one; echo two >&2; printf three", &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("one\nthree"));
    assert_eq!((report.exit.as_deref(), report.left_behind.len()), (Some("exit 0"), 0));
    let events = sink.events.lock().unwrap();
    assert!(events.contains(&Event::Stderr { text: "two".into() }), "{events:?}");
}

#[tokio::test]
async fn silence_is_no_final_text() {
    assert_eq!(Place::new().shell("true", &Sink::new()).await.unwrap().final_text, None);
}

#[tokio::test]
async fn another_exit_status_is_a_crash_without_a_claim() {
    let place = Place::new();
    let script = "echo '<promise>COMPLETE: x</promise>'; echo why >&2; exit 7";
    let error = place.shell(script, &Sink::new()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Crashed);
    assert_eq!(
        error.message,
        "the agent ended with exit 7; its standard error: why; it said last: <promise>COMPLETE: x</promise>"
    );
    assert_eq!((error.report.final_text, error.report.exit.as_deref()), (None, Some("exit 7")));
}

#[tokio::test]
async fn a_signal_is_a_crash() {
    let place = Place::new();
    let error = place.shell("echo hello; kill -9 $$", &Sink::new()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Crashed);
    assert!(error.message.contains("signal 9"), "{error}");
    assert!(error.report.exit.unwrap().starts_with("signal 9"));
}

#[tokio::test]
async fn a_shell_whose_program_is_missing_is_unavailable_too() {
    let place = Place::new();
    for (script, named) in [
        ("exec no-such-program-anywhere", "no-such-program-anywhere"),
        ("env no-such-program-anywhere", "no-such-program-anywhere"),
        ("/etc/passwd", "/etc/passwd"),
    ] {
        let error = place.shell(script, &Sink::new()).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Unavailable, "{error}");
        assert!(error.message.contains(named), "{error}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_unavailable_by_name() {
    let place = Place::new();
    for program in ["no-such-program-anywhere", "./no/such/program"] {
        let agent = place.agent(json!({"program": [program]}));
        let task = place.task(b"");
        let found = agent.check(&task.env).await.unwrap_err();
        let ran = agent.run(task, &Sink::new()).await.unwrap_err();
        for error in [found, ran] {
            assert_eq!(error.class, ErrorClass::Unavailable);
            assert!(error.message.contains(program.trim_start_matches("./")), "{error}");
        }
    }
}

#[tokio::test]
async fn a_path_is_relative_to_the_configuration_and_may_break_later() {
    let place = Place::new();
    let script = place.root.path().join("agent.sh");
    fs::write(&script, "#!/bin/sh\necho \"$1\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = place.agent(json!({"program": ["./agent.sh", "hi"]}));
    let task = place.task(b"");
    assert!(agent.check(&task.env).await.unwrap().contains("agent.sh"));
    let report = agent.run(task, &Sink::new()).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("hi\n"));
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let error = agent.run(place.task(b""), &Sink::new()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable);
    assert!(error.message.contains("/no/such/interpreter"), "{error}");
}

#[tokio::test]
async fn the_program_is_pinned_before_anybody_can_shadow_it() {
    let place = Place::new();
    let bin = place.root.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let agent = place.agent(json!({"program": ["true"]}));
    let shadow = bin.join("true");
    fs::write(&shadow, "#!/bin/sh\nexit 9\n").unwrap();
    fs::set_permissions(&shadow, fs::Permissions::from_mode(0o755)).unwrap();
    let mut task = place.task(b"");
    let path = format!("{}:{}", bin.display(), task.env["PATH"]);
    task.env.insert("PATH".into(), path);
    agent.run(task, &Sink::new()).await.unwrap();
}

#[tokio::test]
async fn what_is_left_behind_is_ended_and_named() {
    let place = Place::new();
    // Between fork and exec a process has its parent's name.
    let script = "is_there() { until grep -qx sleep /proc/$1/comm; do :; done; }
        sleep 1000 & is_there $!
        setsid sleep 1000 >/dev/null 2>&1 & is_there $!
        echo done";
    let report = place.shell(script, &Sink::new()).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("done\n"));
    assert_eq!(report.left_behind, ["sleep 1000", "sleep 1000"]);
}

#[tokio::test]
async fn huge_output_passes_in_pieces_and_its_end_is_kept() {
    let place = Place::new();
    let longest = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let total = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (most, sum) = (longest.clone(), total.clone());
    let sink = Sink::with(move |event| {
        if let Event::Text { text } = event {
            most.fetch_max(text.len(), std::sync::atomic::Ordering::Relaxed);
            sum.fetch_add(text.len(), std::sync::atomic::Ordering::Relaxed);
        }
        Then::GoOn
    });
    let script = "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last";
    let report = place.shell(script, &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("last\n"));
    assert_eq!(total.load(std::sync::atomic::Ordering::Relaxed), 50_000_006);
    assert!(longest.load(std::sync::atomic::Ordering::Relaxed) <= 128 * 1024);
}

#[tokio::test]
async fn bad_utf8_and_characters_across_pieces() {
    let place = Place::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.workspace.join("go"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    // The second half of the crab is printed when the first half has been seen.
    let go = place.workspace.join("go");
    let sink = Sink::with(move |event| {
        if matches!(event, Event::Text { text } if text.ends_with('|')) {
            fs::write(&go, "x\n").unwrap();
        }
        Then::GoOn
    });
    let script = r"printf 'a\377|\360\237'; read x < go; printf '\246\200b\303'";
    let report = place.shell(script, &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("a\u{FFFD}|\u{1F980}b\u{FFFD}"));
    assert_eq!(sink.text(), "a\u{FFFD}|\u{1F980}b\u{FFFD}");
}
