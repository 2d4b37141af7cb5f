//! Endings and streams.

use std::future::pending;

use ralph_orchestrator_supervisor::{CaptureLimit, Ending, Output, Spec, Stop, Stream, Supervisor};

use crate::common::{LIMIT, MS, bounded, eventually, lines, program, sh, start, supervisor};

const MIB: usize = 1024 * 1024;

async fn output(spec: Spec) -> Output {
    let limit = CaptureLimit { head: 8 * MIB, tail: 0 };
    bounded("the output", supervisor().output(spec, limit, pending())).await.unwrap()
}

#[tokio::test]
async fn exit_codes_come_through() {
    for code in [0, 1, 7, 127, 255] {
        let output = output(sh(&format!("exit {code}"))).await;
        assert_eq!(output.exit.ending, Ending::Exited(code));
        assert_eq!(output.exit.ending.is_success(), code == 0);
        assert!(output.exit.left_behind.is_empty() && !output.exit.leaked && !output.stopped);
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[tokio::test]
async fn signals_come_through_with_a_hint_when_nobody_here_killed() {
    let exit = output(sh("kill -9 $$")).await.exit;
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
    assert!(exit.to_string().contains("out of memory"), "{exit}");
    let exit = output(sh("ulimit -c 0; kill -SEGV $$")).await.exit;
    assert_eq!(exit.to_string(), "signal 11 (SIGSEGV)");
    assert!(!exit.stopped && !exit.killed);
}

#[tokio::test]
async fn waiting_twice_gives_the_same() {
    let mut process = start(sh("exit 3")).await;
    let first = bounded("the exit", process.wait()).await;
    assert_eq!(bounded("the exit again", process.wait()).await, first);
    assert_eq!(process.id(), None);
    process.stop(Stop::Kill);
    assert_eq!(bounded("the exit after a stop", process.wait()).await, first);
    assert!(process.next().await.is_none());
}

#[tokio::test]
async fn environment_arguments_folder_and_session_are_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = sh("env; pwd; printf '%s|' \"$@\"");
    spec.args.extend(["sh", "", "a b", "--", "*"].map(Into::into));
    spec.env =
        [("ONE", "1"), ("PATH", "/usr/bin:/bin")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    spec.cwd = folder.path().canonicalize().unwrap();
    let text = output(spec.clone()).await.stdout.text();
    let mut lines: Vec<_> = text.lines().filter(|l| !l.starts_with("_=")).collect();
    lines.sort_unstable();
    let cwd = spec.cwd.to_str().unwrap();
    let pwd = format!("PWD={cwd}");
    assert_eq!(lines, [cwd, "ONE=1", "PATH=/usr/bin:/bin", &pwd, "|a b|--|*|"]);
}

#[tokio::test]
async fn the_leader_inherits_no_descriptor() {
    let stray = tempfile::tempfile().unwrap();
    rustix::io::fcntl_setfd(&stray, rustix::io::FdFlags::empty()).unwrap();
    let mut spec = sh("");
    spec.program = program("ls");
    spec.args = vec!["/proc/self/fd".into()];
    spec.stdin = b"x".to_vec();
    // The fourth is the folder that `ls` reads.
    assert_eq!(output(spec.clone()).await.stdout.text(), "0\n1\n2\n3\n");
    drop(stray);
}

#[tokio::test]
async fn the_leader_inherits_no_signal_setting() {
    let ignoring = "trap '' HUP INT CHLD USR1 TSTP; exec \"$0\" \"$@\"";
    let shim = env!("CARGO_BIN_EXE_ralph-supervisor-shim");
    let supervisor =
        Supervisor::new("/bin/sh".into(), ["-c", ignoring, shim].map(Into::into).into());
    let mut spec = sh("");
    spec.program = program("grep");
    spec.args = ["-E", "^Sig(Blk|Ign):", "/proc/self/status"].map(Into::into).into();
    let output = supervisor.output(spec, CaptureLimit::default(), pending());
    let output = bounded("the output", output).await.unwrap();
    assert_eq!(output.exit.ending, Ending::Exited(0), "an ignored SIGCHLD hides endings");
    let text = output.stdout.text();
    // The C library keeps the signals 32 and 33 for itself, and lets nobody set them.
    let library = 0b11_u64 << 31;
    let sets =
        text.lines().map(|l| u64::from_str_radix(l.rsplit_once('\t').unwrap().1, 16).unwrap());
    assert_eq!(sets.map(|set| set & !library).collect::<Vec<_>>(), [0, 0], "{text}");
}

/// As `execvp` does it, and every shell.
#[tokio::test]
async fn a_script_that_names_no_interpreter_is_run_by_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "echo \"$0 $# $1\"\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let mut spec = sh("");
    spec.program.clone_from(&script);
    spec.args = vec!["a b".into()];
    let output = output(spec).await;
    assert!(output.exit.ending.is_success(), "{:?}", output.exit);
    assert_eq!(output.stdout.text(), format!("{} 1 a b\n", script.display()));
}

#[tokio::test]
async fn the_leader_has_a_session_of_its_own() {
    let mut process = start(sh("echo $$; read x < /proc/$$/stat; echo $x")).await;
    let id = process.id().unwrap().to_string();
    let lines = lines(&mut process, 2).await;
    assert_eq!(lines[0], id);
    let fields: Vec<_> = lines[1].split(' ').collect();
    assert_eq!((fields[4], fields[5], fields[6]), (&*id, &*id, "0"), "group, session, terminal");
    bounded("the exit", process.wait()).await;
}

#[tokio::test]
async fn a_child_that_talks_first_gets_a_megabyte() {
    let mut spec = sh("head -c 1048576 /dev/zero; exec cat");
    spec.stdin = vec![b'x'; MIB];
    let output = output(spec).await;
    assert_eq!(output.exit.ending, Ending::Exited(0));
    assert_eq!(output.stdout.head.len(), 2 * MIB);
    assert!(output.stdout.head[..MIB].iter().all(|b| *b == 0));
    assert!(output.stdout.head[MIB..].iter().all(|b| *b == b'x'));
}

#[tokio::test]
async fn a_child_need_not_read() {
    for script in
        ["echo done", "head -c 1 >/dev/null; echo done", "exec 0<&-; sleep 0.05; echo done"]
    {
        let mut spec = sh(script);
        spec.stdin = vec![b'x'; MIB];
        let output = output(spec).await;
        assert_eq!(output.exit.ending, Ending::Exited(0), "{script}");
        assert_eq!(output.stdout.text(), "done\n");
    }
}

#[tokio::test]
async fn without_input_the_end_of_file_comes_at_once() {
    assert_eq!(output(sh("cat; echo end")).await.stdout.text(), "end\n");
}

#[tokio::test]
async fn bytes_come_through_as_they_are() {
    let wanted = b"a\r\nb\0\xff\rc";
    let mut spec = sh("cat; printf 'err' >&2");
    spec.stdin = wanted.to_vec();
    let output = output(spec).await;
    assert_eq!(output.stdout.head, wanted);
    assert_eq!(output.stderr.head, b"err");
}

#[tokio::test]
async fn both_streams_are_served_while_the_other_is_full() {
    let flood = "head -c 1048576 /dev/zero";
    for script in [format!("{flood} >&2; {flood}"), format!("{flood}; {flood} >&2")] {
        let output = output(sh(&script)).await;
        assert_eq!((output.stdout.head.len(), output.stderr.head.len()), (MIB, MIB));
    }
}

#[tokio::test]
async fn a_process_may_close_its_output_and_go_on() {
    let mut process =
        start(sh("exec >/dev/null 2>&1 <&-; trap 'exit 5' TERM; sleep 1000 & wait")).await;
    assert!(bounded("the end of output", process.next()).await.is_none());
    assert!(process.id().is_some());
    process.stop(Stop::Terminate);
    let exit = bounded("the exit", process.wait()).await;
    assert!(matches!(exit.ending, Ending::Exited(5) | Ending::Signaled { signal: 15, .. }));
}

#[tokio::test]
async fn output_is_cut_in_the_middle_only() {
    let limit = CaptureLimit { head: 4, tail: 4 };
    let supervisor = supervisor();
    let output = supervisor.output(sh("printf 0123456789abcdef"), limit, pending());
    let output = bounded("the output", output).await.unwrap();
    assert_eq!(output.stdout.text(), "0123\n[… 8 bytes cut …]\ncdef");
}

#[tokio::test]
async fn output_can_be_stopped_before_and_after_the_streams_end() {
    let supervisor = supervisor();
    for script in ["sleep 1000", "exec >/dev/null 2>&1; sleep 1000"] {
        let stop = tokio::time::sleep(50 * MS);
        let output = supervisor.output(sh(script), CaptureLimit::default(), stop);
        let output = bounded("the stopped output", output).await.unwrap();
        assert!(output.stopped && output.exit.stopped, "{script}");
        assert_eq!(output.exit.to_string(), "signal 15 (SIGTERM)");
    }
    let late = supervisor.output(sh("echo x"), CaptureLimit::default(), tokio::time::sleep(LIMIT));
    assert!(!bounded("the output", late).await.unwrap().stopped);
}

#[tokio::test]
async fn who_does_not_read_slows_the_writer_down() {
    let mut spec = sh("");
    spec.program = program("cat");
    spec.args = vec!["/dev/zero".into()];
    let mut process = start(spec).await;
    let first = bounded("the first chunk", process.next()).await.unwrap();
    assert_eq!(first.stream, Stream::Stdout);
    let pid = i32::try_from(process.id().unwrap()).unwrap();
    let written = || {
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        let line = io.lines().find_map(|l| l.strip_prefix("wchar: ")).unwrap();
        line.parse::<usize>().unwrap()
    };
    // It writes on until the pipe is full, and then stands.
    let (mut last, mut same) = (0, 0);
    eventually("the writer to stand", || {
        let now = written();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same > 20
    })
    .await;
    assert!(last <= MIB, "{last} bytes were written with nobody reading");
    process.stop(Stop::Kill);
    let exit = bounded("the exit, with the output thrown away", process.wait()).await;
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
    assert!(exit.killed && exit.stopped && exit.hint().is_none());
}

#[tokio::test]
async fn reading_can_be_dropped_at_any_time() {
    let mut spec = sh("i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); done");
    spec.env.clear();
    let mut process = start(spec).await;
    let mut text = Vec::new();
    loop {
        let chunk = tokio::select! {
            biased;
            () = tokio::task::yield_now() => continue,
            chunk = process.next() => chunk,
        };
        match chunk {
            Some(chunk) => text.extend(chunk.bytes),
            None => break,
        }
    }
    let wanted: String = (0..300).map(|i| format!("{i}\n")).collect();
    assert_eq!(String::from_utf8(text).unwrap(), wanted);
    bounded("the exit", process.wait()).await;
}

#[tokio::test]
async fn an_open_input_is_written_in_order_and_closed_when_dropped() {
    let mut spec = sh("cat; echo end");
    spec.stdin = b"first\n".to_vec();
    let (mut process, input) =
        bounded("the start", supervisor().spawn_with_input(spec)).await.unwrap();
    assert_eq!(lines(&mut process, 1).await, ["first"]);
    input.send(b"second\n".to_vec()).unwrap();
    assert_eq!(lines(&mut process, 1).await, ["second"]);
    input.send(vec![b'x'; MIB]).unwrap();
    input.send(b"\n".to_vec()).unwrap();
    drop(input);
    let rest = lines(&mut process, 2).await;
    assert_eq!((rest[0].len(), rest[1].as_str()), (MIB, "end"));
    assert!(bounded("the exit", process.wait()).await.ending.is_success());
}

#[tokio::test]
async fn an_open_input_that_nobody_reads_fills_up() {
    let spec = sh("sleep 1000");
    let (mut process, input) =
        bounded("the start", supervisor().spawn_with_input(spec)).await.unwrap();
    let sent = (0..1000).take_while(|_| input.send(vec![b'x'; 256 * 1024]).is_ok()).count();
    assert!((1..1000).contains(&sent), "{sent}");
    process.stop(Stop::Kill);
    bounded("the exit", process.wait()).await;
}

#[tokio::test]
async fn an_open_input_whose_reader_has_gone_is_no_error() {
    let (mut process, input) =
        bounded("the start", supervisor().spawn_with_input(sh("exec <&-; read x; exit 3")))
            .await
            .unwrap();
    assert_eq!(bounded("the exit", process.wait()).await.ending, Ending::Exited(3));
    for _ in 0..1000 {
        if input.send(vec![b'x'; 1024]).is_err() {
            // Nothing is written while nobody lets the writer run.
            tokio::task::yield_now().await;
        }
    }
    bounded("the writer", async {
        while input.send(vec![b'x'; 1024]).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
