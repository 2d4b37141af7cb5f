//! What is seen of a job while it goes on, and what stays of it.

use std::fs;

use crate::tmux::Tmux;

use super::{FAILS, SOLVES, add_task, environment, trial_files};

#[test]
fn one_line_shows_how_far_the_job_is_at_every_width_and_goes_at_the_end() {
    let script = format!(
        "touch \"$shared/begun\"\nif [ \"$(cat name.txt)\" = two ]; then \
         while [ -e \"$shared/hold\" ]; do sleep 0.02; done; fi\n{SOLVES}"
    );
    let env = environment(&[("waits", &script)]);
    for task in ["one", "two"] {
        add_task(&env, task, 600);
    }
    env.write("shared/hold", "");
    let args = ["bench", "run", "--agents", "waits", "-n", "2", "--out", "job"];
    let tmux = Tmux::start(&env, &args, 120);
    let live = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains(" running  "));
        lines.map(str::to_owned).collect()
    };
    let text = tmux.until("the first trial", |text| {
        live(text).iter().any(|line| line.starts_with("1/2 trials, 1 running"))
    });
    let lines = live(&text);
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].contains("waits 100 %") && lines[0].contains("$0.00"), "{text}");
    assert!(text.contains("[1/2] waits on test/one"), "{text}");
    for columns in [40, 100] {
        tmux.tell(&["resize-window", "-x", &columns.to_string()]);
        let text = tmux.until("the line is drawn anew", |text| {
            live(text).last().is_some_and(|line| line.chars().count() < columns)
        });
        assert_eq!(live(&text).len(), 1, "{text}");
    }
    fs::remove_file(env.path("shared/hold")).unwrap();
    // By the width that the program knows by then, the file is on the same line or the next.
    let text = tmux.until("the end", |text| text.contains("\nreport:"));
    assert!(live(&text).is_empty(), "{text}");
}

#[test]
fn nothing_moves_where_nobody_sees_it_or_wants_it() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    let args = ["bench", "run", "--agents", "solves", "--out"];
    let plain = env.ralph(&[&args[..], &["plain"]].concat()).expect(0);
    plain.says("[1/1] solves on test/one");
    assert!(!plain.stderr.contains('\u{1b}') && !plain.stderr.contains("running"));
    let quiet = env.ralph(&[&["--quiet"][..], &args, &["quiet"]].concat()).expect(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn files_of_attempts_stay_as_long_as_they_are_wanted() {
    for (keep, solved, failed) in
        [("all", true, true), ("failed", false, true), ("none", false, false)]
    {
        let env = environment(&[("solves", SOLVES), ("fails", FAILS)]);
        add_task(&env, "one", 600);
        let set = format!("--set=bench.keep={keep}");
        env.ralph(&["bench", "run", "--agents", "solves,fails", "--out", "job", &set]).expect(0);
        let mut seen = 0;
        for trial in fs::read_dir(env.path("job")).unwrap().map(|entry| entry.unwrap().path()) {
            let attempt = trial.join("attempts/1");
            let Ok(text) = fs::read_to_string(attempt.join("trial.json")) else { continue };
            let stays = if text.contains("\"fails\"") { failed } else { solved };
            assert_eq!(attempt.join("environment").exists(), stays, "{keep}: {text}");
            assert!(attempt.join("state").exists() && attempt.join("logs").exists());
            seen += 1;
        }
        assert_eq!((seen, trial_files(&env, "job").len()), (2, 2));
        env.ralph(&["bench", "resume", "job"]).expect(0);
    }
}
