//! What the view shows.

use std::fs;

use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{Layout, Store};

use super::{TERM, snapshot_views, watch};
use crate::environment::{TestEnvironment, alive, eventually};
use crate::screens::Scripted;
use crate::tmux::Tmux;

/// An ANSI sequence and a bidirectional override.
const HOSTILE: &str = "\u{1b}[31mred\u{202e}drow";

#[test]
fn it_fits_every_window_and_follows_a_run_to_its_end() {
    let scripted = Scripted::new();
    let mut running = scripted.env.start(&["run"]);
    scripted.agent_works();
    let mut shown = Vec::new();
    let tmux = watch(&scripted.env, 80, 24);
    let is_whole = |text: &str, rows: usize| {
        text.contains("[Bash]") && text.contains("running") && text.lines().count() == rows
    };
    let mut show = |what: &str, text: String| shown.push(format!("== {what}\n{text}"));
    show("80 columns", tmux.until("the run", |text| is_whole(text, 24)));
    for (columns, rows) in [(200, 50), (40, 24), (80, 24)] {
        let size = [columns, rows].map(|size| size.to_string());
        tmux.tell(&["resize-window", "-x", &size[0], "-y", &size[1]]);
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
        let text = tmux.until("the other size", |text| {
            is_whole(text, rows)
                && widest(text).is_some_and(|widest| widest <= columns && columns - widest < 3)
        });
        show(&format!("{columns} columns"), text);
    }
    scripted.release();
    running.wait().expect(0);
    show(
        "at the end",
        tmux.until("the end", |text| {
            text.contains("COMPLETED  command")
                && text.contains("  COMPLETED\n")
                && !text.contains("between iterations")
        }),
    );
    tmux.press(&["v"]);
    show("verdicts", tmux.until("verdicts", |text| text.contains("tests accepted")));
    // To the iterations, and there to the third.
    tmux.press(&["Escape", "BTab", "Up", "Enter"]);
    show("a transcript", tmux.until("its transcript", |text| text.contains("it compiles")));
    tmux.press(&["q", "d"]);
    show("changes", tmux.until("why there are none", |text| text.contains("checkpoint")));
    snapshot_views("watch", &shown.join("\n"));
    let pid = tmux.pid();
    tmux.press(&["q", "q"]);
    eventually("its end", || !alive(pid));
}

#[test]
fn changes_are_those_of_the_checkpoints() {
    let env = TestEnvironment::new();
    let git = |words: &[&str]| {
        let mut command = env.program("/usr/bin/git".as_ref());
        let set = ["-c", "user.name=x", "-c", "user.email=x@x"];
        assert!(command.args(set).args(words).output().unwrap().status.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    env.config("[git]\ncommit = \"checkpoint\"\n");
    env.agent.call(1).script("echo 'one\u{202e} line' > notes.txt\n").out("not yet");
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>");
    env.run().expect(0);
    let tmux = watch(&env, 80, 24);
    tmux.until("the run", |text| text.contains("accepted after iteration 2"));
    tmux.press(&["BTab", "Up", "d"]);
    let text = tmux.until("changes", |text| text.contains("changes of iteration 1: 1 file"));
    assert!(text.contains("+one\\u{202e} line"), "{text}");
}

#[test]
fn what_agents_write_is_shown_as_text() {
    let env = TestEnvironment::new();
    env.agent.call(1).out(format!("{HOSTILE}\nnot yet"));
    env.agent
        .default_call()
        .script("touch done\n")
        .out(format!("<promise>COMPLETE: {HOSTILE}</promise>"));
    env.run().expect(0);
    let tmux = watch(&env, 120, 30);
    let text = tmux.until("the claim", |text| text.contains("accepted after iteration 2"));
    assert!(text.contains("red\\u{202e}drow") && !text.contains('\u{202e}'), "{text}");
    tmux.press(&["BTab", "Up", "Enter"]);
    let text = tmux.until("a transcript", |text| text.contains("not yet"));
    assert!(text.contains("\\u{1b}[31mred\\u{202e}drow") && !text.contains('\u{202e}'), "{text}");
}

#[test]
fn no_color_has_no_colours() {
    let mut env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>");
    env.run().expect(0);
    let has_colour = |env: &TestEnvironment| {
        let tmux = watch(env, 80, 24);
        tmux.until("the run", |text| text.contains("COMPLETED") && text.contains("[q]"));
        let cells = tmux.tell(&["capture-pane", "-p", "-e"]);
        let codes = cells.split("\x1b[").skip(1).filter_map(|part| part.split_once('m'));
        let codes: Vec<&str> = codes.flat_map(|(codes, _)| codes.split(';')).collect();
        codes.iter().any(|code| matches!(code.parse(), Ok(30..=38 | 40..=48 | 90..=107)))
    };
    assert!(has_colour(&env));
    env.var("NO_COLOR", "1");
    assert!(!has_colour(&env));
}

#[test]
fn a_long_run_takes_bounded_memory_and_shows_its_newest_lines() {
    const RECORDS: u64 = 100_000;
    let env = TestEnvironment::new();
    env.agent.call(1).out("not yet");
    env.ralph(&["run", "--once"]).expect(0);
    let mut store = Store::open(Layout::new(env.state())).unwrap();
    store.resume().unwrap().unwrap();
    for number in 0..RECORDS {
        let text = format!("number {number} of many, as long as a line of a terminal usually is");
        store.append(&Record::Warning { message: text }).unwrap();
    }
    drop(store);
    let tmux = watch(&env, 80, 24);
    let text = tmux.until("the newest", |text| text.contains("number 99999"));
    assert!(text.contains("earlier in `log`"), "{text}");
    let status = fs::read_to_string(format!("/proc/{}/status", tmux.pid())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(most < 100 * 1024, "{most} KiB");
    // The oldest that are shown, and back.
    tmux.press(&["Home"]);
    tmux.until("the oldest", |text| text.contains("number 90000"));
    tmux.press(&["/", "number 95555 ", "Enter"]);
    tmux.until("what is searched", |text| text.contains("number 95555"));
    tmux.press(&["f"]);
    tmux.until("the newest", |text| text.contains("number 99999"));
}

#[test]
fn another_run_of_the_workspace_takes_the_place_of_the_one_before() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>");
    env.run().expect(0);
    let tmux = watch(&env, 80, 24);
    tmux.until("the first run", |text| text.contains("COMPLETED  command"));
    fs::remove_file(env.path("done")).unwrap();
    env.agent.call(2).out("not yet");
    env.ralph(&["run", "--restart", "--once"]).expect(0);
    let text =
        tmux.until("the second", |text| text.contains("INTERRUPTED") || text.contains("STOPPED"));
    assert!(!text.contains("accepted by"), "{text}");
}

#[test]
fn before_the_first_run_it_waits_for_one() {
    let env = TestEnvironment::new();
    let tmux = watch(&env, 80, 24);
    tmux.until("no run", |text| text.contains("no run of this user yet"));
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>");
    env.run().expect(0);
    tmux.until("the run", |text| text.contains("COMPLETED  command"));
}

#[test]
fn it_begins_with_the_run_of_the_folder_or_the_one_that_is_named() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>");
    env.run().expect(0);
    // A newer one of another workspace.
    let other = env.root().join("other");
    fs::create_dir(&other).unwrap();
    for file in ["ralph.toml", "PROMPT.md"] {
        fs::copy(env.path(file), other.join(file)).unwrap();
    }
    let program = env.command(&[]).get_program().to_owned();
    let run = env.program(program.as_ref()).arg("run").current_dir(&other).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    let tmux = watch(&env, 80, 24);
    let text = tmux.until("both", |text| text.contains("runs (2)") && text.contains("COMPLETED"));
    assert!(text.contains("▸✔ w "), "{text}");
    tmux.press(&["Left", "Up"]);
    tmux.until("the other", |text| {
        text.contains("▸✔ other") && text.contains("other  ✔ COMPLETED")
    });
    drop(tmux);
    let other = other.display().to_string();
    let tmux = Tmux::start_with(&env, &["watch", "-w", &other], (80, 24), TERM);
    tmux.until("the other", |text| text.contains("▸✔ other"));
    eventually("both", || tmux.text().contains("runs (2)"));
}
