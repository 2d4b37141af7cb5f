//! What an agent in a sandbox can and cannot do, asked of the kernel by a real agent.
#![allow(unsafe_code)]

mod agents;
mod home;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::environment::{Ended, TestEnvironment, alive, eventually, of_run, parents};

const PROMISE: &str = "<promise>COMPLETE: made it</promise>\n";

/// What the kernel itself says, by the call that the program asks, too.
pub(crate) fn kernel_level() -> i64 {
    // SAFETY: with the flag 1 the call reads nothing and answers a number.
    unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0, 1)
    }
}

/// An environment whose agent may report to its own folder; with `[sandbox]`, and more after it.
/// `apart`: the configuration lies outside the workspace, as is best.
struct Sandboxed {
    env: TestEnvironment,
    apart: bool,
}

impl Sandboxed {
    fn new(apart: bool, mode: &str, more: &str) -> Self {
        let env = TestEnvironment::new();
        let root = env.root().display().to_string();
        let sandbox = format!(
            "\n[sandbox]\nmode = \"{mode}\"\nworkspace = \"locked\"\nwrite = [\"{root}/agent\"]\n\n[[validator]]\nkind = \
             \"command\"\nname = \"kept\"\nprogram = [\"true\"]\n{more}"
        );
        env.config(&sandbox);
        if apart {
            let text = env.read("ralph.toml");
            let run = format!("workspace = \"{root}/w\"\nprompt = \"{root}/w/PROMPT.md\"\ndelay =");
            fs::create_dir(env.root().join("c")).unwrap();
            fs::write(env.root().join("c/ralph.toml"), text.replacen("delay =", &run, 1)).unwrap();
            fs::remove_file(env.path("ralph.toml")).unwrap();
        }
        Self { env, apart }
    }

    fn ralph(&self, args: &[&str]) -> Ended {
        let config = self.env.root().join("c/ralph.toml").display().to_string();
        let more = if self.apart { vec!["-c", config.as_str()] } else { Vec::new() };
        self.env.ralph(&[&more[..], args].concat())
    }

    /// A run that completes; where the kernel has no Landlock, one that is refused.
    /// False for the latter.
    #[track_caller]
    fn completes(&self) -> bool {
        if kernel_level() < 3 {
            self.ralph(&["run"]).expect(69).says("Landlock");
            assert_eq!(self.env.agent.calls(), 0);
            return false;
        }
        self.ralph(&["run"]).expect(0).says("completed");
        true
    }

    /// What the agent's attempts came to, by their names.
    fn tries(&self) -> Vec<String> {
        let text = fs::read_to_string(self.env.root().join("agent/tries")).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// A shell function that notes whether a command succeeds.
const TRY: &str = r#"try() { name=$1; shift; if sh -c "$*" >/dev/null 2>&1; then echo "$name yes"; else echo "$name no"; fi >>"$FAKE_DIR/tries"; }
"#;

/// Everything that no agent in a sandbox can do, and what is there to do it to.
fn forbidden(s: &Sandboxed) -> String {
    let parents = parents();
    let root = s.env.root().display().to_string();
    let config = if s.apart { "c/ralph.toml" } else { "w/ralph.toml" };
    fs::create_dir_all(s.env.root().join("outside")).unwrap();
    fs::write(s.env.root().join("outside/file"), "as it was\n").unwrap();
    let lines = [
        "state-list ls $S",
        "state-read cat $S/*/latch $K",
        "state-key head -c1 $(find $S -name key) $K",
        "state-new touch $S/x",
        "state-append echo x >>$K",
        "state-remove rm $K",
        "state-rename mv $S $S.gone",
        "state-link ln $K $W/key",
        "config-append echo x >>$C",
        "config-truncate truncate -s 0 $C",
        "config-remove rm $C",
        "config-replace echo x >$T/n && mv -f $T/n $C",
        "config-rename mv $C $C.old",
        "config-link ln $C $W/deep/linked",
        "outside-append echo x >>$O/file",
        "outside-new touch $O/new",
        "outside-remove rm $O/file",
        "outside-link ln -s $O/file $W/deep/way && echo x >>$W/deep/way",
        "home-new touch $H/x",
        "tmp-new touch /tmp/ralph-sandbox-test-$$",
        "kill-orchestrator kill -0 $P",
        "orchestrator-memory : </proc/$P/mem",
        "daemon-append setsid sh -c 'echo x >>$O/file'",
        "daemon-read setsid sh -c 'cat $K'",
    ];
    let tries: String = lines
        .iter()
        .map(|line| {
            let (name, command) = line.split_once(' ').unwrap();
            format!("try {name} '{}'\n", command.replace('\'', "'\\''"))
        })
        .collect();
    format!(
        "{TRY}export W='{root}/w' H='{root}/home' O='{root}/outside' C='{root}/{config}' T=\"${{TMPDIR:-/tmp}}\"\n\
         export S=\"$H/.local/state/ralph-orchestrator\"\n\
         export K='{root}/key-of-state'\n\
         {parents}export P=$orchestrator\n\
         mkdir -p deep\n{tries}"
    )
}

/// Where the key lies, for those who cannot look for it: its path is told to the agent.
fn tell_key(s: &Sandboxed, script: &str) -> String {
    let state = orchestrator_state(s);
    script.replace(
        &format!("{}/key-of-state", s.env.root().display()),
        &format!("{}/key", state.display()),
    )
}

/// The state directory, made by asking for the status of a run that has not begun.
fn orchestrator_state(s: &Sandboxed) -> std::path::PathBuf {
    let ended = s.ralph(&["run", "--dry-run"]).expect(0);
    let line = ended.stdout.lines().find(|line| line.trim().starts_with("state")).unwrap();
    Path::new(line.trim().trim_start_matches("state").trim()).to_owned()
}

#[test]
pub(crate) fn an_agent_in_a_sandbox_reaches_neither_state_nor_configuration_nor_anything_outside() {
    for apart in [true, false] {
        let s = Sandboxed::new(apart, "landlock", "");
        s.env.write("deep/file", "");
        s.env.write("done", "");
        let script = forbidden(&s);
        if kernel_level() >= 3 {
            s.env.agent.call(1).script(&tell_key(&s, &script)).out(PROMISE);
        }
        let config = fs::read(if apart {
            s.env.root().join("c/ralph.toml")
        } else {
            s.env.path("ralph.toml")
        });
        if !s.completes() {
            continue;
        }
        let tries = s.tries();
        assert!(tries.len() >= 24, "{tries:?}");
        for line in &tries {
            let signals = line.starts_with("kill-") && kernel_level() < 6;
            assert!(line.ends_with(" no") || signals, "{line}, of {tries:?}");
        }
        let after = fs::read(if apart {
            s.env.root().join("c/ralph.toml")
        } else {
            s.env.path("ralph.toml")
        });
        assert_eq!(after.unwrap(), config.unwrap());
        let outside = fs::read_to_string(s.env.root().join("outside/file")).unwrap();
        assert_eq!(outside, "as it was\n");
    }
}

#[test]
fn without_a_sandbox_the_same_agent_can() {
    let s = Sandboxed::new(true, "off", "");
    s.env.write("deep/file", "");
    s.env.write("done", "");
    let script = forbidden(&s);
    // Not what would end the run, or leave something behind.
    let harmless = |line: &&str| {
        !line.starts_with("try ")
            || [
                "state-list",
                "state-read",
                "state-key",
                "config-append",
                "outside-append",
                "outside-new",
                "kill-",
                "daemon-",
            ]
            .iter()
            .any(|name| line.starts_with(&format!("try {name}")))
    };
    let script: Vec<&str> = script.lines().filter(harmless).collect();
    let script = tell_key(&s, &(script.join("\n") + "\n"));
    s.env.agent.call(1).script(&script).out(PROMISE);
    s.ralph(&["run"]).expect(0);
    let tries = s.tries();
    assert_eq!(tries.len(), 9, "{tries:?}");
    assert!(tries.iter().all(|line| line.ends_with(" yes")), "{tries:?}");
}

#[test]
fn it_can_work_as_usual_in_its_workspace() {
    let s = Sandboxed::new(true, "landlock", "");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        r#"set -e
        exec 2>"$FAKE_DIR/trouble"
        mkdir -p src/sub && echo one >src/sub/a && mv src/sub/a src/b && ln src/b src/c && ln -s b src/d
        sed -i s/one/two/ src/b && rm src/c
        git init -q . && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm work
        git mv src/b top && git -c user.name=a -c user.email=a@b.c commit -qm moved
        t=$(mktemp) && echo scratch >"$t" && cat "$t" >from-scratch && echo "$TMPDIR" >tmpdir
        printf '#!/bin/sh\ntest "$(cat top)" = two\n' >test.sh && chmod +x test.sh && ./test.sh
        echo heard >/dev/stderr; echo gone >/dev/null; echo also >/proc/self/fd/2
        ls /usr/bin >/dev/null; cat /etc/hostname /proc/self/status >/dev/null
        (echo a | tee pipe | cat >/dev/null)
        sleep 1000 & kill $!
        bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'
        printf '\n- [x] TASK_COMPLETE\n' >>PROMPT.md
        touch done
"#
    );
    s.env.agent.call(1).script(&script);
    if s.completes() {
        assert_eq!(s.env.read("from-scratch"), "scratch\n");
        let tmp = s.env.read("tmpdir");
        assert!(tmp.contains("/ralph-") && !Path::new(tmp.trim()).exists(), "{tmp}");
        listener.set_nonblocking(true).unwrap();
        listener.accept().expect("the agent has called");
    }
}

#[test]
fn what_is_protected_in_the_workspace_cannot_be_changed_and_what_lies_beside_it_can() {
    let s = Sandboxed::new(true, "landlock", "protect = [\"tests/unit/**\", \"check.sh\"]\n");
    for name in ["tests/unit/a", "tests/unit/b", "tests/notes", "check.sh", "top", "src/x"] {
        s.env.write(name, "as it was\n");
    }
    s.env.write("done", "");
    let tries = [
        ("no", "append echo x >>tests/unit/a"),
        ("no", "truncate truncate -s 0 check.sh"),
        ("no", "remove rm tests/unit/a"),
        ("no", "replace echo x >src/n && mv -f src/n check.sh"),
        ("no", "rename mv check.sh src/check.sh"),
        ("no", "link ln check.sh src/check.sh"),
        ("no", "move-folder mv tests src/tests"),
        ("no", "move-inner mv tests/unit tests/old"),
        ("no", "remove-folder rm -r tests"),
        // The price: nothing new right beside what is protected.
        ("no", "new-beside touch tests/unit/c"),
        ("no", "new-folder-on-top mkdir fresh"),
        ("no", "new-on-top touch fresh"),
        ("no", "remove-on-top rm top"),
        ("yes", "change-beside echo x >>tests/notes"),
        ("yes", "change-on-top echo x >>top"),
        ("yes", "new-elsewhere mkdir src/deep && echo x >src/deep/y"),
        ("yes", "remove-elsewhere rm src/x"),
        ("yes", "read-protected cat tests/unit/a check.sh && ls tests/unit ."),
    ];
    let script: String = tries
        .iter()
        .map(|(_, line)| line.split_once(' ').unwrap())
        .map(|(name, command)| format!("try {name} '{command}'\n"))
        .collect();
    s.env.agent.call(1).script(&format!("{TRY}{script}")).out(PROMISE);
    if !s.completes() {
        return;
    }
    let expected: Vec<String> = tries
        .iter()
        .map(|(answer, line)| format!("{} {answer}", line.split_once(' ').unwrap().0))
        .collect();
    assert_eq!(s.tries(), expected);
    assert!(!s.env.path("fresh").exists() && !s.env.path("tests/unit/c").exists(), "no litter");
    s.ralph(&["run", "--restart", "--once"])
        .says("cannot create, remove or rename")
        .says("/w and 2");
}

#[test]
fn what_a_run_protects_stays_so_when_the_configuration_forgets_it() {
    let s = Sandboxed::new(true, "landlock", "protect = [\"src/check.sh\"]\n");
    if kernel_level() < 3 {
        return assert!(!s.completes());
    }
    s.env.write("src/check.sh", "as it was\n");
    s.env.agent.default_call().script(&format!("{TRY}try change 'echo x >>src/check.sh'\n"));
    s.ralph(&["run", "--once"]).expect(0);
    let path = s.env.root().join("c/ralph.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("protect = [\"src/check.sh\"]\n", "")).unwrap();
    s.ralph(&["run", "--once"]).expect(0).says("goes on with those it began with");
    assert_eq!(s.tries(), ["change no", "change no"]);
}

#[test]
fn nothing_survives_and_the_supervisor_itself_is_not_confined() {
    let s = Sandboxed::new(true, "landlock", "");
    let pid = s.env.root().join("agent/daemon");
    s.env.agent.call(1).script(&format!(
        "setsid sh -c 'trap \"\" TERM HUP; echo $$ >{0}.new; mv {0}.new {0}; sleep 1000; sleep 1000' \
         >/dev/null 2>&1 </dev/null &\nuntil [ -e {0} ]; do sleep 0.01; done; touch done\n",
        pid.display()
    ))
    .out(PROMISE);
    if s.completes() {
        let pid = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        eventually("the daemon's end", || !alive(pid));
        assert!(of_run(&s.env.root().join("home")).is_empty());
    }
}

#[test]
fn validators_are_not_confined() {
    let s = Sandboxed::new(true, "landlock", "");
    let outside = s.env.root().join("by-validator");
    let path = s.env.root().join("c/ralph.toml");
    let text = fs::read_to_string(&path).unwrap();
    let touch = format!("program = [\"touch\", \"{}\"]", outside.display());
    fs::write(&path, text.replace("program = [\"true\"]", &touch)).unwrap();
    s.env.agent.call(1).script("touch done\n").out(PROMISE);
    if s.completes() {
        assert!(outside.exists());
    }
}

#[test]
fn paths_that_make_no_sense_are_refused_and_nothing_is_started() {
    if kernel_level() < 3 {
        return assert!(!Sandboxed::new(true, "landlock", "").completes());
    }
    let s = Sandboxed::new(true, "landlock", "");
    let set = |key: &str, path: &Path| format!("sandbox.{key}=[\"{}\"]", path.display());
    let nowhere = set("read", &s.env.root().join("nowhere"));
    s.ralph(&["run", "--set", &nowhere]).expect(78).says("sandbox.read").says("nowhere");
    let state = s.env.root().join("home/.local/state/ralph-orchestrator");
    assert!(!state.exists(), "no state was made");
    fs::create_dir_all(state.join("x")).unwrap();
    let inside = set("write", &state.join("x"));
    s.ralph(&["run", "--set", &inside]).expect(78).says("sandbox.write").says("state directory");
    assert_eq!(s.env.agent.calls(), 0);
}

/// Runs the program where the kernel does not know Landlock: a seccomp filter answers for it.
fn without_landlock(command: &mut Command) -> &mut Command {
    let install = || {
        let number = u32::try_from(libc::SYS_landlock_create_ruleset).unwrap_or(0);
        let errno = u32::try_from(libc::ENOSYS).unwrap_or(0);
        let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
            code: u16::try_from(code).unwrap_or(0),
            jt,
            jf,
            k,
        };
        let mut filter = [
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
            statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno),
            statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
        // SAFETY: both calls only read their arguments, which live long enough.
        let done = unsafe {
            let (no, yes): (libc::c_ulong, libc::c_ulong) = (0, 1);
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, no, no, no) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(install) }
}

#[test]
fn where_the_kernel_cannot_do_it_nothing_is_started() {
    let env = TestEnvironment::new();
    env.config("\n[sandbox]\nmode = \"landlock\"\n");
    let output = without_landlock(&mut env.command(&["run"])).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{stderr}");
    assert!(stderr.contains("Landlock") && stderr.contains("nothing was started"), "{stderr}");
    assert_eq!(env.agent.calls(), 0);
    assert!(!env.has_state(), "no state was made");

    let output = without_landlock(&mut env.command(&["doctor"])).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(69), "{stdout}");
    assert!(stdout.contains("FAIL  sandbox") && stdout.contains("Landlock"), "{stdout}");

    let off = ["doctor", "--set", "sandbox.mode=off"];
    let output = without_landlock(&mut env.command(&off)).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("off; this kernel offers no Landlock"), "{stdout}");
}

#[test]
fn the_doctor_says_what_the_kernel_offers() {
    let env = TestEnvironment::new();
    let level = kernel_level();
    let off = env.ralph(&["doctor"]).expect(0);
    if level < 3 {
        off.says("off; this kernel offers");
        return drop(env.ralph(&["doctor", "--set", "sandbox.mode=landlock"]).expect(69));
    }
    off.says(&format!("off; the kernel offers Landlock level {level}"));
    let on = env.ralph(&["doctor", "--set", "sandbox.mode=landlock"]).expect(0);
    on.says(&format!("on, by Landlock level {level}"));
}

/// The layout that `init` writes: everything in one folder.
#[test]
fn in_the_layout_of_init_the_agent_can_create_files_where_it_works() {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.write("test.sh", "test -e done -a -e src/new\n").write("tests/a", "as it was\n");
    env.write("src/old", "");
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    env.ralph(&["init", "--goal", "Make a file called done."]).expect(0);
    let root = env.root().display().to_string();
    let mut config: toml::Table = toml::from_str(&env.read("ralph.toml")).unwrap();
    let agent = env.agent.program().display().to_string();
    let agent = format!("adapter = \"command\"\nunmetered = true\nconfig.program = [{agent:?}]");
    config.insert("agent".into(), toml::from_str(&agent).unwrap());
    let sandbox = format!("mode = \"landlock\"\nwrite = [\"{root}/agent\"]");
    config.insert("sandbox".into(), toml::from_str(&sandbox).unwrap());
    env.write("ralph.toml", toml::to_string(&config).unwrap());
    if kernel_level() < 3 {
        env.run().expect(69).says("Landlock");
        return;
    }
    let warning = "the agent can write";
    env.ralph(&["doctor"]).expect(0).says("warn  sandbox").says(warning).says("w/ralph.toml");
    let state = env.root().join("home/.local/state/ralph-orchestrator").display().to_string();
    env.agent
        .call(1)
        .script(&format!(
            "{TRY}try new 'touch done'\ntry folder 'mkdir fresh && rmdir fresh'\n\
             try rename 'mv src/old src/new'\ntry state 'ls {state}'\ntry outside 'touch {root}/x'\n\
             try protected 'echo x >> tests/a'\n"
        ))
        .out(PROMISE);
    env.agent.call(2).script("echo 'as it was' > tests/a\n").out(PROMISE);
    env.run().expect(0).says(warning);
    // What is protected is compared, as without a sandbox.
    assert!(String::from_utf8(env.agent.stdin(2)).unwrap().contains("tests/a (modified)"));
    let tries = fs::read_to_string(env.root().join("agent/tries")).unwrap();
    let expected =
        ["new yes", "folder yes", "rename yes", "state no", "outside no", "protected yes"];
    assert_eq!(tries.lines().collect::<Vec<_>>(), expected);
}

/// What a user lists, what an agent puts in its place, and whether the workspace is locked.
const REPLACED: [(&str, &str, &str); 9] = [
    ("sandbox.read=['w/data']", "rm -rf data; ln -s $H/.ssh data", "open"),
    ("sandbox.write=['@/agent','w/data']", "rm -rf data; ln -s $H data", "open"),
    ("sandbox.write=['@/agent','@/w/data']", "rm -rf data; ln -s $H data", "open"),
    ("sandbox.write=['@/agent','w/data/f']", "rm data/f; ln -s $H/.ssh/id_ed25519 data/f", "open"),
    ("sandbox.write=['@/agent','w/data/x']", "rm -rf data; ln -s $H/.ssh data", "open"),
    ("sandbox.write=['@/agent','w/data/x']", "rm -rf data/x; ln -s $H data/x", "locked"),
    (
        "sandbox.write=['@/agent','@/own','@/own/p']",
        "rm -rf ../own/p; ln -s $H/.ssh ../own/p",
        "open",
    ),
    ("sandbox.read=['w/data']", "rm -rf data; ln -s $H/.cargo/credentials.toml data", "open"),
    ("agent.inputs=['w/mcp.json']", "rm mcp.json; ln -s $H/.ssh/id_ed25519 mcp.json", "open"),
];

#[test]
fn a_listed_path_that_an_agent_replaces_by_a_link_opens_nothing() {
    if kernel_level() < 3 {
        return;
    }
    for (listed, replace, workspace) in REPLACED {
        let s = Sandboxed::new(true, "landlock", "");
        home::fill_home(&s.env);
        let (root, home) = (s.env.root(), s.env.root().join("home").display().to_string());
        fs::create_dir_all(root.join("own/p")).unwrap();
        fs::create_dir_all(root.join("home/.ssh/x")).unwrap();
        fs::create_dir_all(root.join("w/data/x")).unwrap();
        s.env.write("data/f", "").write("mcp.json", "{}\n");
        let keys = format!("{home}/.ssh/id_ed25519 {home}/.cargo/credentials.toml");
        let tries: String = keys
            .split(' ')
            .map(|key| format!("try read 'cat {key}'\ntry write 'echo x >>{key}'\n"))
            .collect();
        let script = format!("{TRY}{tries}H={home}; {replace}\n");
        s.env.agent.default_call().script(&script);
        let listed = listed.replace('@', &root.display().to_string());
        let listed = listed.replace("'w/", &format!("'{}/w/", root.display()));
        let open = format!("sandbox.workspace={workspace}");
        let run = ["run", "--set", &listed, "--set", &open, "--set", "limits.max_iterations=2"];
        s.ralph(&run);
        let ended = s.ralph(&[&run[..], &["--restart"]].concat());
        let tries = s.tries();
        assert!(tries.len() >= 8, "{listed}: {tries:?} {}", ended.stderr);
        assert!(tries.iter().all(|line| line.ends_with(" no")), "{listed}: {tries:?}");
        if listed.starts_with("sandbox") {
            ended.says("is not opened");
        }
    }
}
