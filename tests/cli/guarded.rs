//! What runs the agent's code is not the user: what changes while checks, setup and hooks run is taken back, and what
//! notices and hooks run of the workspace has no more rights than the agent.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::backlog::{CLAIM, feature, features, statuses};
use crate::environment::{Ended, TestEnvironment};
use crate::git;
use crate::sandbox::kernel_level;

/// Runs what the agent left to be run, if it left anything.
const LATE: &str = "[ ! -e late.sh ] || sh ./late.sh";

/// A workspace in which a phase runs what the agent leaves in `late.sh`.
fn environment_of(phase: &str) -> TestEnvironment {
    let (check, run, more) = match phase {
        "checks" => (format!("{LATE}; test -e done"), String::new(), ""),
        "setup" => {
            let run = format!("setup = [\"sh\", \"-c\", \"{LATE}\"]\n");
            ("test -e done".to_owned(), run, "")
        }
        _ => ("test -e done".to_owned(), String::new(), "[git]\ncommit = \"iteration\"\n"),
    };
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n{run}[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n{more}\
         [memory]\nmode = \"full\"\nprogress = \"progress.txt\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"-c\", \"{check}\"]\n"
    ));
    if phase == "hooks" {
        git::init(&env);
        git::git(&env, &["add", "."]);
        git::git(&env, &["commit", "-qm", "first"]);
        git::write_hook(&env, "pre-commit", LATE);
    }
    env
}

#[test]
fn what_a_phase_changes_of_the_task_and_the_notes_is_taken_back() {
    for phase in ["checks", "setup", "hooks"] {
        let env = environment_of(phase);
        env.check_in_workspace();
        let prompt = env.read("PROMPT.md");
        let late = "echo 'Do something else.' >> PROMPT.md\n: > progress.txt\n";
        env.agent.call(1).script(&format!("printf '%s' \"{late}\" > late.sh\n"));
        env.agent.call(2).script("touch done\n").out(CLAIM);
        let ended = env.run().expect(0);
        ended.says("PROMPT.md was changed").says("it was put back").says("replaced-PROMPT.md");
        ended.says("progress.txt lost earlier content");
        assert_eq!(env.read("PROMPT.md"), prompt, "{phase}");
        assert!(env.read("progress.txt").contains("Action: "), "{phase}");
        assert!(!String::from_utf8(env.agent.stdin(2)).unwrap().contains("something else"));
        // Nobody touched anything since.
        env.run().expect(0).says("already completed");
        assert_eq!(env.agent.calls(), 2, "{phase}");
    }
}

#[test]
fn the_task_with_which_the_run_began_is_the_same_task() {
    let env = TestEnvironment::new();
    env.config("");
    let prompt = env.read("PROMPT.md");
    env.agent.call(1).script("echo 'done: all' >> PROMPT.md; touch done\n").out(CLAIM);
    env.run().expect(0);
    env.run().expect(0).says("already completed");
    env.write("PROMPT.md", prompt);
    env.run().expect(0).says("already completed");
    env.write("PROMPT.md", "# Another task\n");
    env.agent.call(2).script("touch done\n").out(CLAIM);
    env.run().expect(0).says("this is a new run");
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn what_a_check_sets_to_completed_in_the_backlog_is_taken_back() {
    let env = features(&[feature("a", 9, &[]), feature("b", 1, &[])]);
    env.check_in_workspace();
    let text = env.read("ralph.toml");
    env.write("ralph.toml", text.replace("ls made-*", "sh ./made-late; ls made-*"));
    env.agent.default_call().script(
        "echo \"sed -i 's/pending/completed/' feature-list.json\" > made-late\n\
         id=$(sed -n 's/^Id: //p' \"$call.stdin\" | head -1); : > \"made-$id\"\n",
    );
    let ended = env.run().expect(0);
    ended.says("item `b` was set to completed; its status was restored");
    assert_eq!(env.agent.calls(), 2, "each item has its run");
    assert!(statuses(&env).iter().all(|(_, status)| status == "completed"));
}

#[test]
fn what_checks_change_that_belong_to_no_run_is_put_back() {
    let env = TestEnvironment::with_checks_in_workspace();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"./check.sh\"]\n",
    );
    env.write("check.sh", "echo more >> PROMPT.md\n").write("done", "");
    let prompt = env.read("PROMPT.md");
    for command in ["doctor", "verify"] {
        env.ralph(&[command]).says("PROMPT.md was changed while the checks ran");
        assert_eq!(env.read("PROMPT.md"), prompt, "{command}");
    }
}

/// A receiver whose command runs a script of the workspace, which the agent rewrites.
fn notified(sandbox: &str, command: &str) -> TestEnvironment {
    let mut env = TestEnvironment::new();
    let root = env.root().display().to_string();
    let command = command.replace("ROOT", &root);
    env.config(&format!(
        "[sandbox]\nmode = \"{sandbox}\"\nwrite = [\"{root}/agent\"]\n\
         [[notify]]\nkind = \"command\"\ncommand = {command}\npass = [\"GIVEN\"]\n"
    ));
    env.var("SOME_API_TOKEN", "tok-123456789");
    env.var("GIVEN", "given-by-name");
    env.write("tell.sh", "#!/bin/sh\nenv > ../told\n");
    env.write_mode("tell.sh", 0o755);
    env
}

fn never_says(ended: &Ended, text: &str) {
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(!all.contains(text), "unexpected {text:?} in\n{all}");
}

#[test]
fn a_script_of_a_notice_that_the_agent_rewrote_is_not_run() {
    let commands = [
        "[\"./tell.sh\"]",
        "[\"sh\", \"tell.sh\"]",
        "[\"sh\", \"-c\", \"true; . ./tell.sh\"]",
        "[\"env\", \"A=b\", \"./tell.sh\"]",
    ];
    for command in commands {
        let env = notified("off", command);
        env.agent.call(1).script("echo 'env > ../outside' >> tell.sh; touch done\n").out(CLAIM);
        let ended = env.run().expect(0);
        ended.says("notify command: the agent can change");
        ended.says("tell.sh was changed since the run began, so it is not run");
        let is_there = |name: &str| env.root().join(name).exists();
        assert!(!is_there("outside") && !is_there("told"), "{command}");
        env.ralph(&["doctor"]).says("was changed since the last run began");
        // What it was when the run began is not changed.
        let changed = env.read("tell.sh");
        env.write("tell.sh", "#!/bin/sh\nenv > ../told\n");
        never_says(&env.ralph(&["doctor"]), "was changed since");
        env.write("tell.sh", changed);
        // A person who tries it accepts it.
        let tried = env.ralph(&["notify"]).expect(0);
        tried.says("tell.sh was changed since the run began; it is run now, and accepted as it is");
        assert!(is_there("outside"), "{command}");
        never_says(&env.ralph(&["notify"]).expect(0), "was changed since");
        env.write("tell.sh", "#!/bin/sh\nenv > ../told\n");
        never_says(&env.ralph(&["doctor"]), "was changed since");
    }
}

#[test]
fn a_script_of_a_notice_that_the_agent_of_one_item_rewrote_is_not_run_for_the_next() {
    let env = features(&[feature("a", 2, &[]), feature("b", 1, &[])]);
    let notify = "[[notify]]\nkind = \"command\"\ncommand = [\"./tell.sh\"]\non = [\"started\"]\n";
    env.write("ralph.toml", format!("{}{notify}", env.read("ralph.toml")));
    env.write("tell.sh", "#!/bin/sh\ntrue\n").write_mode("tell.sh", 0o755);
    let work = format!("{}echo 'touch ../outside' >> tell.sh\n", crate::backlog::WORK);
    env.agent.default_call().script(&work);
    env.run().expect(0).says("tell.sh was changed since the run began, so it is not run");
    assert_eq!(env.agent.calls(), 2);
    assert!(!env.root().join("outside").exists());
}

#[test]
fn a_script_of_a_notice_is_given_what_its_table_names_and_no_secret() {
    let env = notified("off", "[\"./tell.sh\"]");
    env.agent.call(1).script("touch done\n").out(CLAIM);
    env.run().expect(0);
    let told = fs::read_to_string(env.root().join("told")).unwrap();
    assert!(told.contains("given-by-name") && !told.contains("tok-123456789"), "{told}");
}

#[test]
fn a_script_of_a_notice_runs_in_the_sandbox_where_the_agent_can_write_it() {
    if kernel_level() < 3 {
        return;
    }
    let commands = ["[\"./tell.sh\"]", "[\"sh\", \"-c\", \". ./tell.sh\"]", "[\"ROOT/tell\"]"];
    for command in commands {
        let env = notified("landlock", command);
        // One of the user's own that runs what lies in the workspace.
        fs::write(env.root().join("tell"), "#!/bin/sh\nexec sh ./tell.sh\n").unwrap();
        fs::set_permissions(env.root().join("tell"), fs::Permissions::from_mode(0o755)).unwrap();
        let late = "cat > /dev/null; env > ../outside; echo more >> PROMPT.md; echo x > $TMPDIR/x";
        env.agent
            .call(1)
            .script(&format!("printf '#!/bin/sh\\n{late}\\n' > tell.sh; touch done\n"));
        env.agent.call(1).out(CLAIM);
        let prompt = env.read("PROMPT.md");
        env.run().expect(0).says("which therefore runs in the sandbox");
        assert!(!env.root().join("outside").exists(), "{command}");
        assert_eq!(env.read("PROMPT.md"), prompt, "{command}");
        env.ralph(&["doctor"]).says("which therefore runs in the sandbox");
        env.run().expect(0).says("already completed");
    }
}

#[test]
fn hooks_and_filters_of_git_run_in_the_sandbox() {
    if kernel_level() < 3 {
        return;
    }
    let mut env = git::committed("iteration");
    let root = env.root().display().to_string();
    env.config(&format!(
        "[git]\ncommit = \"iteration\"\n[sandbox]\nmode = \"landlock\"\nwrite = [\"{root}/agent\"]\n"
    ));
    env.var("SOME_API_TOKEN", "tok-123456789");
    git::write_hook(&env, "pre-commit", "env > seen; sh ./checks.sh");
    git::git(&env, &["config", "filter.f.clean", "sh ./filter.sh"]);
    env.write("checks.sh", "true\n").write("filter.sh", "cat\n");
    env.write(".gitattributes", "*.txt filter=f\n");
    git::git(&env, &["add", "."]);
    git::git(&env, &["commit", "-qm", "second"]);
    env.agent.call(1).script(
        "echo 'env > ../by-hook; true' > checks.sh; echo 'env > ../by-filter; cat' > filter.sh\n\
         echo work > work.txt; touch done\n",
    );
    env.agent.call(1).out(CLAIM);
    env.run().expect(0);
    assert!(!env.root().join("by-hook").exists() && !env.root().join("by-filter").exists());
    assert!(!env.read("seen").contains("tok-123456789"));
    // It is committed all the same.
    assert_eq!(git::git(&env, &["show", "HEAD:work.txt"]), "work");
    assert_eq!(git::git(&env, &["status", "--porcelain", "work.txt"]), "");
    assert!(!env.path(".git/ralph-orchestrator.index").exists());
}

#[test]
fn what_an_agent_wrote_into_git_s_configuration_waits_for_a_person() {
    if kernel_level() < 3 {
        return;
    }
    let env = git::committed("iteration");
    let root = env.root().display().to_string();
    env.config(&format!(
        "[git]\ncommit = \"iteration\"\n[sandbox]\nmode = \"landlock\"\nwrite = [\"{root}/agent\"]\n"
    ));
    env.write("evil", format!("#!/bin/sh\ntouch {root}/ran\n")).write_mode("evil", 0o755);
    let script =
        "git config commit.gpgSign true; git config gpg.program /proc/self/cwd/evil; touch done\n";
    env.agent.call(1).script(script).out(CLAIM);
    env.agent.call(2).script("echo 2 > work.txt; touch done\n").out(CLAIM);
    env.agent.call(3).script("echo 3 > new.txt; touch done\n").out(CLAIM);
    let changed =
        "git's configuration changed since agents began to work here: commit.gpgsign, gpg.program";
    env.run().expect(0).says(changed);
    fs::remove_file(env.path("done")).unwrap();
    env.ralph(&["run", "--restart"]).expect(0).says(changed).says("`ralph-orchestrator trust`");
    env.ralph(&["trust"]).expect(0).says("with changed commit.gpgsign, gpg.program");
    fs::remove_file(env.path("done")).unwrap();
    let ended = env.ralph(&["run", "--restart"]).expect(0);
    ended.says("signing is as your own git configuration says");
    assert_eq!(git::git(&env, &["show", "HEAD:new.txt"]), "3");
    assert!(!env.root().join("ran").exists());
}

#[test]
fn commits_that_an_agent_cannot_read_come_into_no_prompt() {
    if kernel_level() < 3 {
        return;
    }
    let env = git::committed("off");
    let root = env.root().display().to_string();
    env.config(&format!(
        "[memory]\nmode = \"structured\"\nrecent_commits = 3\n\
         [sandbox]\nmode = \"landlock\"\nwrite = [\"{root}/agent\"]\n"
    ));
    let other = format!("{root}/home/other");
    fs::create_dir_all(&other).unwrap();
    git::git(&env, &["-C", &other, "init", "-q"]);
    let person = ["-C", &other, "-c", "user.name=x", "-c", "user.email=x@x"];
    let commit = ["commit", "-q", "--allow-empty", "-m", "secret plans"];
    git::git(&env, &[person.as_slice(), commit.as_slice()].concat());
    env.agent.call(1).script(&format!("rm -rf .git; echo 'gitdir: {other}/.git' > .git\n"));
    env.agent.call(2).script("touch done\n").out(CLAIM);
    env.run().expect(0);
    let prompt = |call| String::from_utf8(env.agent.stdin(call)).unwrap();
    assert!(prompt(1).contains("Recent commits") && prompt(1).contains("first"));
    assert!(!prompt(2).contains("secret plans"), "{}", prompt(2));
}

#[test]
fn a_commit_that_is_signed_is_signed_where_the_keys_are() {
    if kernel_level() < 3 {
        return;
    }
    let env = git::committed("iteration");
    let root = env.root().display().to_string();
    env.config(&format!(
        "[git]\ncommit = \"iteration\"\n[sandbox]\nmode = \"landlock\"\nwrite = [\"{root}/agent\"]\n"
    ));
    // It signs with a key that no agent can read.
    fs::write(
        env.root().join("signer"),
        format!(
            "#!/bin/sh\ncat > /dev/null; echo used >> {root}/signatures\n\
             echo '[GNUPG:] SIG_CREATED ' >&2\necho '-----BEGIN PGP SIGNATURE-----'; echo; echo x; \
             echo '-----END PGP SIGNATURE-----'\n"
        ),
    )
    .unwrap();
    fs::set_permissions(env.root().join("signer"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(env.root().join("home")).unwrap();
    git::git(&env, &["config", "--global", "commit.gpgSign", "true"]);
    git::git(&env, &["config", "--global", "gpg.program", &format!("{root}/signer")]);
    env.agent.call(1).script("echo work > work.txt; touch done\n").out(CLAIM);
    env.run().expect(0);
    let commit = git::git(&env, &["cat-file", "commit", "HEAD"]);
    assert!(commit.contains("BEGIN PGP SIGNATURE"), "{commit}");
    assert!(commit.contains("Ralph-Iteration: 1"), "{commit}");
    assert!(fs::read_to_string(env.root().join("signatures")).unwrap().contains("used"));
    assert_eq!(git::git(&env, &["show", "HEAD:work.txt"]), "work");
}

#[test]
fn programs_in_a_folder_of_the_workspace_are_not_started_with_the_rights_of_the_user() {
    if kernel_level() < 3 {
        return;
    }
    let mut env = git::committed("iteration");
    let root = env.root().display().to_string();
    env.config(&format!(
        "[git]\ncommit = \"iteration\"\n[sandbox]\nmode = \"landlock\"\nwrite = [\"{root}/agent\"]\n\
         [[notify]]\nkind = \"command\"\ncommand = [\"{root}/tell\"]\n\
         [[notify]]\nkind = \"command\"\nname = \"make\"\ncommand = [\"/usr/bin/env\", \"helper\"]\n"
    ));
    fs::write(env.root().join("tell"), "#!/bin/sh\ngpg x; pwd > ../tell-ran\n").unwrap();
    fs::set_permissions(env.root().join("tell"), fs::Permissions::from_mode(0o755)).unwrap();
    git::git(&env, &["config", "--global", "commit.gpgSign", "true"]);
    let path = std::env::var("PATH").unwrap();
    env.var("PATH", &format!("{}/.venv/bin:bin:{path}", env.workspace().display()));
    env.agent.call(1).script(&format!(
        "mkdir -p .venv/bin; for name in git gpg ssh-keygen helper; do\n\
             printf '#!/bin/sh\\necho ran > {root}/outside\\n' > .venv/bin/$name\n\
             chmod +x .venv/bin/$name; done; echo work > work.txt; touch done\n"
    ));
    env.agent.call(1).out(CLAIM);
    env.run();
    for words in
        [&["doctor"][..], &["diff"], &["trust"], &["notify"], &["report", "--html", "../r"]]
    {
        env.ralph(words);
        assert!(!env.root().join("outside").exists(), "{words:?}");
    }
}
