//! A disk that is full, a disk that cannot be written, and many starts at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::environment::{TestEnvironment, eventually, of_run};

/// A file system of its own, as the state directory.
struct Mount(PathBuf);

impl Mount {
    /// `None` if this user may not mount anything.
    fn new(path: PathBuf) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k,mode=0700", "none"])
            .arg(&path)
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(path))
    }

    /// The shims of a run that has just ended hold its lock a moment longer, open for writing.
    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        eventually("nothing is open for writing any more", || {
            let mut mount = Command::new("mount");
            mount.args(["-o", &options]).arg(&self.0).stderr(Stdio::null());
            mount.status().unwrap().success()
        });
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Half of the work in each of two iterations.
fn two_halves(state: &Path) -> impl Fn(&TestEnvironment) {
    let state = state.to_owned();
    move |env| {
        env.config(&format!("\n[state]\ndir = \"{}\"\n", state.display()));
        env.agent
            .default_call()
            .script("if [ -e half ]; then touch done; else touch half; fi\n")
            .out("<promise>COMPLETE: x</promise>\n");
    }
}

fn fill(folder: &Path) -> u64 {
    use std::io::Write as _;
    let mut file = fs::File::create(folder.join("filler")).unwrap();
    let mut written = 0;
    for size in [65_536, 4_096, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {
            written += size as u64;
        }
    }
    written
}

#[test]
fn a_full_disk_stops_the_run_and_room_lets_it_go_on() {
    let env = TestEnvironment::new();
    let state = env.root().join("state");
    two_halves(&state)(&env);
    let Some(mount) = Mount::new(state.clone()) else {
        // Without the right to mount, no file may grow instead: to the writer it is the same.
        let mut limited = Command::new("sh");
        let program = env.command(&[]).get_program().to_owned();
        limited.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" run"]).arg(program);
        limited.current_dir(env.workspace());
        let ended = limited.output().unwrap();
        assert_eq!(ended.status.code(), Some(70), "{ended:?}");
        env.run().expect(0);
        return;
    };
    // Full before anything is there.
    assert!(fill(&mount.0) > 0);
    let full = env.run().expect(70);
    full.says(&state.display().to_string()).says("No space left").says("free disk space");
    assert_eq!(env.agent.calls(), 0);
    fs::remove_file(mount.0.join("filler")).unwrap();
    // Full while the agent works.
    let fifo = env.fifo("fifo");
    env.agent
        .call(1)
        .script(&format!("echo x > '{0}'; cat '{0}'; touch half\n", fifo.display()))
        .out("<promise>COMPLETE: x</promise>\n");
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    fill(&mount.0);
    fs::write(&fifo, "x").unwrap();
    let full = running.wait().expect(70);
    full.says(&state.display().to_string()).says("No space left");
    assert!(of_run(&env.root()).is_empty(), "the agent is gone");
    let before = env.status();
    assert_eq!(before["iterations"], 1);
    env.run().expect(70).says("No space left");
    assert_eq!(env.agent.calls(), 1, "nothing is started that could not be recorded");
    fs::remove_file(mount.0.join("filler")).unwrap();
    env.run().expect(0).says(" resumed after ");
    assert_eq!(env.status()["latch"]["state"], "completed");
    assert_eq!(env.status()["run"], before["run"]);
    // A completion stands on a full disk, too.
    fill(&mount.0);
    let calls = env.agent.calls();
    assert_eq!(env.status()["phase"], "completed");
    fs::remove_file(mount.0.join("filler")).unwrap();
    env.run().expect(0).says("already completed");
    assert_eq!(env.agent.calls(), calls);
}

#[test]
fn a_state_directory_that_cannot_be_written_is_said_and_nothing_is_started() {
    let env = TestEnvironment::new();
    let state = env.root().join("state");
    two_halves(&state)(&env);
    let Some(mount) = Mount::new(state.clone()) else {
        // Nor can the folder be made below a file, whoever asks.
        fs::remove_dir(&state).unwrap();
        fs::write(&state, "").unwrap();
        env.run().expect(70).says(&state.display().to_string());
        return;
    };
    mount.remount("ro");
    env.run().expect(70).says(&state.display().to_string()).says("Read-only");
    assert_eq!(env.agent.calls(), 0);
    mount.remount("rw");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    mount.remount("ro");
    env.run().expect(70).says("Read-only");
    assert_eq!(env.status()["iterations"], 1, "it can be read all the same");
    mount.remount("rw");
    env.run().expect(0).says(" resumed after ");
}

#[test]
fn of_many_starts_in_the_same_moment_exactly_one_runs() {
    const STARTS: usize = 8;
    for round in 0..3 {
        let env = TestEnvironment::new();
        env.agent.call(1).script("sleep 1000\n");
        env.agent.call(2).script("sleep 1000\n");
        env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
        // The second time they come right after kill -9, while the old agent is still there.
        for time in 1..=2 {
            let mut starts: Vec<_> = (0..STARTS).map(|_| env.start(&["run"])).collect();
            eventually("all but one are refused", || {
                let ended = starts.iter_mut().map(|start| start.child.try_wait().unwrap());
                ended.filter(Option::is_some).count() >= STARTS - 1
            });
            let (mut running, refused): (Vec<_>, Vec<_>) =
                starts.into_iter().partition(|start| of_pid(start.pid()));
            assert_eq!(running.len(), 1, "round {round}");
            for mut start in refused {
                start.wait().expect(75);
            }
            eventually("its agent runs", || env.agent.calls() == time);
            running[0].signal(Signal::KILL);
            running[0].wait();
        }
        env.run().expect(0);
        assert_eq!(env.agent.calls(), 3);
        assert!(of_run(&env.root()).is_empty(), "round {round}");
    }
}

fn of_pid(pid: i32) -> bool {
    crate::environment::alive(pid)
}
