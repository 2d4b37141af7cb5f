//! What agents in a sandbox reach of the home directory.

use std::fs;

use super::{PROMISE, Sandboxed, TRY, kernel_level};
use crate::environment::TestEnvironment;

/// What people and programs have in their home directories, and whether an agent may read it.
const HOME: [(&str, bool); 26] = [
    (".aws/credentials", false),
    (".bash_history", false),
    (".bashrc", false),
    (".cache/mozilla/firefox/cookies", false),
    (".cache/pip/wheel", true),
    (".cargo/bin/tool", true),
    (".cargo/config.toml", true),
    (".cargo/credentials.toml", false),
    (".claude.json", true),
    (".claude/settings.json", true),
    (".config/gh/hosts.yml", false),
    (".config/git/config", true),
    (".config/git/credentials", false),
    (".config/ralph-orchestrator/receipt-key.pem", false),
    (".config/ralph-passphrase", false),
    (".gitconfig", true),
    (".gnupg/private-keys-v1.d/key", false),
    (".local/bin/tool", true),
    (".local/share/keyrings/login", false),
    (".local/share/uv/tool", true),
    (".mozilla/firefox/logins.json", false),
    (".netrc", false),
    (".npm/_cacache/index", true),
    (".npmrc", false),
    (".ssh/id_ed25519", false),
    ("notes/private.txt", false),
];

pub(super) fn fill_home(env: &TestEnvironment) {
    for (name, _) in HOME {
        let path = env.root().join("home").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, if name.ends_with(".json") { "{}\n" } else { "" }).unwrap();
    }
}

#[test]
fn an_agent_reads_what_is_listed_of_the_home_directory_and_nothing_else() {
    let s = Sandboxed::new(true, "landlock", "");
    fill_home(&s.env);
    let home = s.env.root().join("home").display().to_string();
    let tries: String = HOME
        .iter()
        .map(|(name, _)| format!("try {name} 'cat {home}/{name}'\n"))
        .chain([
            format!("try list 'ls {home}'\n"),
            format!("try write 'touch {home}/.claude/x {home}/.cache/x'\n"),
            "try environment 'cat /proc/$P/environ'\n".to_owned(),
        ])
        .collect();
    let parents = crate::environment::parents();
    let script = format!("{TRY}{parents}export P=$orchestrator\n{tries}touch done\n");
    s.env.agent.call(1).script(&script).out(PROMISE);
    if !s.completes() {
        return;
    }
    let word = |is_open: bool| if is_open { "yes" } else { "no" };
    let mut expected: Vec<_> =
        HOME.iter().map(|(name, is_open)| format!("{name} {}", word(*is_open))).collect();
    expected.extend(["list no", "write no", "environment no"].map(str::to_owned));
    assert_eq!(s.tries(), expected);
}

#[test]
fn what_is_listed_adds_to_it_but_never_the_settings_of_the_orchestrator() {
    let s = Sandboxed::new(true, "landlock", "");
    if kernel_level() < 3 {
        return assert!(!s.completes());
    }
    fill_home(&s.env);
    let home = s.env.root().join("home");
    fs::remove_dir_all(home.join(".config/ralph-orchestrator")).unwrap();
    fs::create_dir(home.join(".config/other")).unwrap();
    let home = home.display().to_string();
    let tries = [
        ("yes", "read-listed", "cat $H/.ssh/id_ed25519 $H/.cargo/credentials.toml"),
        ("yes", "write-listed", "touch $H/.config/other/x && echo x >>$H/.config/gh/hosts.yml"),
        ("no", "settings", "mkdir $H/.config/ralph-orchestrator"),
        ("no", "link", "ln -s other $H/.config/ralph-orchestrator"),
        ("no", "rename", "mv $H/.config/other $H/.config/ralph-orchestrator"),
    ];
    let script: String =
        tries.iter().map(|(_, name, text)| format!("try {name} '{text}'\n")).collect();
    s.env.agent.call(1).script(&format!("{TRY}export H={home}\n{script}touch done\n")).out(PROMISE);
    let read = format!("sandbox.read=['{home}/.ssh','{home}/.cargo/credentials.toml']");
    let write = format!("sandbox.write=['{}/agent','{home}/.config']", s.env.root().display());
    let ended = s.ralph(&["run", "--set", &read, "--set", &write]).expect(0);
    ended.says("cannot create, remove or rename anything directly in").says("/.config");
    let expected: Vec<_> = tries.iter().map(|(word, name, _)| format!("{name} {word}")).collect();
    assert_eq!(s.tries(), expected);

    fs::create_dir(s.env.root().join("home/.config/ralph-orchestrator")).unwrap();
    let own = format!("sandbox.write=['{home}/.config/ralph-orchestrator']");
    s.ralph(&["run", "--restart", "--set", &own])
        .expect(78)
        .says("sandbox.write")
        .says("own settings");
}

#[test]
fn links_that_an_agent_makes_open_nothing_in_the_next_iteration() {
    let s = Sandboxed::new(false, "landlock", "");
    if kernel_level() < 3 {
        return assert!(!s.completes());
    }
    fill_home(&s.env);
    let home = s.env.root().join("home").display().to_string();
    s.env.agent.call(1).script(&format!(
        "ln -s {home}/.ssh/id_ed25519 notes.md\nmkdir -p a/worktrees/b\necho {home}/w/.git >a/worktrees/b/gitdir\n\
         echo 'gitdir: a/worktrees/b' >.git\nln -s {home}/notes a/worktrees/notes\n"
    ));
    s.env.agent.call(2).script(&format!("{TRY}try key 'cat {home}/.ssh/id_ed25519 notes.md'\n"));
    let agent = s.env.agent.program().display().to_string();
    let program = format!("agent.config.program=['{agent}','notes.md']");
    for _ in 0..2 {
        s.ralph(&["run", "--once", "--set", "sandbox.workspace=open", "--set", &program]).expect(0);
    }
    assert_eq!(s.tries(), ["key no"]);
    assert!(s.env.path("notes.md").is_symlink());
}

#[test]
fn a_workspace_that_has_the_home_directory_in_it_is_refused_unless_that_is_listed() {
    let s = Sandboxed::new(true, "landlock", "");
    if kernel_level() < 3 {
        return assert!(!s.completes());
    }
    let root = s.env.root().display().to_string();
    let workspace = format!("run.workspace={root}/home");
    let state = format!("state.dir={root}/state");
    let run = ["run", "--once", "--set", &workspace, "--set", &state];
    s.ralph(&run).expect(78).says("the home directory").says("sandbox.write");
    assert_eq!(s.env.agent.calls(), 0);
    let write = format!("sandbox.write=['{root}/agent','{root}/home']");
    s.ralph(&[&run[..], &["--set", &write]].concat()).expect(0);
    assert_eq!(s.env.agent.calls(), 1);
}

#[test]
fn doctor_and_a_dry_run_say_what_is_open() {
    let s = Sandboxed::new(true, "landlock", "");
    if kernel_level() < 3 {
        return assert!(!s.completes());
    }
    fill_home(&s.env);
    let text = "of the home directory it reads .cache, .cargo, .claude, .claude.json, .config/git, \
                .gitconfig, .local/bin, .local/share/uv, .npm, and writes nothing";
    s.ralph(&["doctor"]).expect(0).says(text);
    s.ralph(&["run", "--dry-run"]).expect(0).says("of the home directory it reads .cache");
    let object = s.ralph(&["run", "--dry-run", "--json"]).expect(0).stdout;
    let object: serde_json::Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["sandbox"]["home"]["read"][1], ".cargo", "{object}");
}
