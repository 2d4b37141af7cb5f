//! How the view ends, and what it leaves.

use rustix::process::{Pid, Signal, kill_process};

use super::{TERM, watch};
use crate::controls::{Moment, Scene};
use crate::environment::{TestEnvironment, alive, eventually};
use crate::tmux::Tmux;

fn completed() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>");
    env.run().expect(0);
    env
}

#[test]
fn to_kill_it_leaves_the_run_alone() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let tmux = watch(&scene.env, 80, 24);
    tmux.until("the run", |text| text.contains("RUNNING"));
    let pid = tmux.pid();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    eventually("its end", || !alive(pid));
    scene.release();
    scene.ends(0);
    assert_eq!(scene.env.status()["phase"], "completed");
}

/// The view in a shell, which says afterwards how it ended and what became of the terminal.
fn in_a_shell(env: &TestEnvironment) -> (Tmux, Pid) {
    let program = env.command(&[]).get_program().to_str().unwrap().to_owned();
    let script = "stty -g > before; sh -c 'echo $$ > pid; exec \"$0\" watch' \"$0\"; \
                  echo \"it ended with $?\"; stty -g > after; echo > over; cat";
    let words = ["sh", "-c", script, &program].map(str::to_owned);
    let tmux = Tmux::start_words(env, &words, (80, 24), TERM);
    tmux.until("the run", |text| text.contains("COMPLETED") && text.contains("[q]"));
    assert_ne!(env.read("before"), terminal_settings(&tmux, env));
    let pid = env.read("pid").trim().parse().unwrap();
    (tmux, Pid::from_raw(pid).unwrap())
}

/// The settings of the window's terminal, as `stty -g` prints them.
fn terminal_settings(tmux: &Tmux, env: &TestEnvironment) -> String {
    let path = tmux.tell(&["display-message", "-p", "#{pane_tty}"]);
    let mut command = env.program("stty".as_ref());
    command.args(["-F", path.trim(), "-g"]);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[track_caller]
fn is_restored(tmux: &Tmux, env: &TestEnvironment, status: &str) {
    eventually("the shell", || env.path("over").exists());
    let text = tmux.until("the shell", |text| text.contains("it ended with"));
    assert_eq!(text, format!("it ended with {status}\n"));
    assert_eq!(env.read("before"), env.read("after"));
    let modes = tmux.tell(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
    assert_eq!(modes.trim(), "0 1");
}

#[test]
fn signals_and_keys_give_the_terminal_back() {
    for (signal, status) in [(Signal::TERM, "143"), (Signal::INT, "130"), (Signal::HUP, "143")] {
        let env = completed();
        let (tmux, pid) = in_a_shell(&env);
        kill_process(pid, signal).unwrap();
        is_restored(&tmux, &env, status);
    }
    for key in ["q", "C-c"] {
        let env = completed();
        let (tmux, _) = in_a_shell(&env);
        tmux.press(&[key]);
        is_restored(&tmux, &env, "0");
    }
}

#[test]
fn a_window_that_is_closed_ends_it() {
    let env = completed();
    let tmux = watch(&env, 80, 24);
    tmux.until("the run", |text| text.contains("COMPLETED"));
    let pid = tmux.pid();
    drop(tmux);
    eventually("its end", || !alive(pid));
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let env = completed();
    let ended = env.ralph(&["watch"]).expect(64);
    ended.says("`watch` needs a terminal").says("`status` and `log --follow`");
    let program = env.command(&[]).get_program().to_str().unwrap().to_owned();
    let script = "\"$0\" watch; echo \"it ended with $?\"; cat";
    let words = ["sh", "-c", script, &program].map(str::to_owned);
    let tmux = Tmux::start_words(&env, &words, (80, 24), "dumb");
    let text = tmux.until("its end", |text| text.contains("it ended with 64"));
    assert!(text.contains("hint: `status` and `log --follow`"), "{text}");
}
