//! What agents do to their prompt, their workspace, the configuration and the state.

use std::fs;
use std::process::Command;

use super::{PROMISE, WORK, completed, ends, hostile, prompt_given, stopped};

#[test]
fn whatever_is_in_the_prompt_s_place_it_is_put_back() {
    for (what, sabotage) in [
        ("a folder", "rm PROMPT.md; mkdir PROMPT.md"),
        ("a full folder", "rm PROMPT.md; mkdir -p PROMPT.md/a; echo x > PROMPT.md/a/b"),
        ("a link to a folder", "rm PROMPT.md; ln -s / PROMPT.md"),
        ("a link to nowhere", "rm PROMPT.md; ln -s /nowhere/at/all PROMPT.md"),
        ("a link to itself", "rm PROMPT.md; ln -s PROMPT.md PROMPT.md"),
        ("a link to a device", "rm PROMPT.md; ln -s /dev/zero PROMPT.md"),
        ("a FIFO", "rm PROMPT.md; mkfifo PROMPT.md"),
        ("nine megabytes", "head -c 9M /dev/zero > PROMPT.md"),
        ("a terabyte of nothing", "truncate -s 1T PROMPT.md"),
        ("a file that may not be read", "chmod 000 PROMPT.md"),
        ("deleted with the folder's rights", "rm PROMPT.md; chmod 555 ."),
    ] {
        let env = hostile();
        let prompt = env.read("PROMPT.md");
        // Long enough for the watch on the file to see it in that state.
        env.agent.call(1).script(&format!("{sabotage}\nsleep 0.2\necho 1 > x\n"));
        env.agent.call(2).script(&format!("chmod 755 .; {WORK}")).out(PROMISE);
        let ended = env.run();
        assert_eq!(prompt_given(&env, 2), prompt, "{what}");
        assert_eq!(env.read("PROMPT.md"), prompt, "{what}");
        let aside: Vec<_> = fs::read_dir(env.workspace())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("PROMPT.md."))
            .collect();
        assert_eq!(aside.len(), usize::from(what == "a full folder"), "{what}: {aside:?}");
        let made: Vec<&str> =
            ["done", "x"].into_iter().chain(aside.iter().map(String::as_str)).collect();
        ends(&env, what, &ended, completed(2, &made));
    }
}

#[test]
fn a_pipe_in_the_prompt_s_place_stops_no_clock_and_no_signal() {
    let env = hostile();
    env.config("\n[limits]\nmax_failures = 1\niteration_timeout = \"1s\"\n");
    env.agent.call(1).script("rm PROMPT.md; mkfifo PROMPT.md; sleep 1000\n");
    let ended = env.run();
    ends(&env, "FIFO", &ended, stopped("failures", 1, &[]));
}

#[test]
fn a_prompt_that_is_written_piece_by_piece_is_read_whole() {
    let env = hostile();
    env.agent.call(1).script(
        "echo 1 > x; for i in 1 2 3 4 5 6 7 8 9 10; do
           printf '# Task' > PROMPT.md; printf ' number %s\\n' $i >> PROMPT.md; sleep 0.01
           printf 'Make a file ' >> PROMPT.md; printf 'called done.\\n' >> PROMPT.md; done\n",
    );
    env.agent.call(2).script(WORK).out(PROMISE);
    let ended = env.run();
    assert_eq!(prompt_given(&env, 2), "# Task number 10\nMake a file called done.\n");
    ends(&env, "pieces", &ended, completed(2, &["done", "x"]));
}

#[test]
fn whatever_is_in_the_configuration_s_place_the_run_goes_on_with_its_own() {
    for (what, sabotage) in [
        ("a folder", "rm ralph.toml; mkdir ralph.toml"),
        ("a FIFO", "rm ralph.toml; mkfifo ralph.toml"),
        ("a device", "rm ralph.toml; ln -s /dev/zero ralph.toml"),
        ("nonsense", "head -c 1000 /dev/urandom > ralph.toml"),
    ] {
        let env = hostile();
        let config = env.read("ralph.toml");
        env.agent.call(1).script(&format!("{sabotage}\n")).out(PROMISE);
        env.agent.call(2).script(WORK);
        let ended = env.run();
        ended.says("this run goes on with what it was started with");
        let path = env.path("ralph.toml");
        drop(fs::remove_dir(&path).or_else(|_| fs::remove_file(&path)));
        env.write("ralph.toml", config);
        ends(&env, what, &ended, completed(2, &["done"]));
    }
}

#[test]
fn whatever_is_in_the_place_of_a_file_of_the_state_it_is_written_again() {
    for name in ["latch", "key", "lock", "runs/*/journal.jsonl"] {
        for (what, sabotage) in [
            ("a FIFO", "rm -f $f; mkfifo $f"),
            ("a folder", "rm -f $f; mkdir $f"),
            ("a link to a device", "ln -sf /dev/zero $f"),
            ("a link to nowhere", "ln -sf /nowhere/at/all $f"),
        ] {
            let what = format!("{what} for {name}");
            let env = hostile();
            env.agent.call(1).script(&format!(
                "cd \"$HOME\"/.local/state/ralph-orchestrator/*; f=$(echo {name}); {sabotage}\ncd \"$OLDPWD\"; echo 1 > x\n"
            ));
            env.agent.call(2).script(WORK).out(PROMISE);
            let ended = env.run();
            ended.says("was changed from outside");
            ends(&env, &what, &ended, completed(2, &["done", "x"]));
            env.run().expect(0).says("already completed");
        }
    }
}

#[test]
fn folders_of_the_state_that_became_files_are_made_again() {
    for (what, sabotage) in [
        ("runs", "rm -rf runs; echo > runs"),
        ("iterations", "cd runs/*; rm -rf iterations; echo > iterations"),
        ("everything", "p=$PWD; cd ..; rm -rf \"$p\"; echo > \"$p\""),
    ] {
        let env = hostile();
        env.agent.call(1).script(&format!(
            "(cd \"$HOME\"/.local/state/ralph-orchestrator/*; {sabotage})\necho 1 > x\n"
        ));
        env.agent.call(2).script(WORK).out(PROMISE);
        let ended = env.run();
        ends(&env, what, &ended, completed(2, &["done", "x"]));
        env.run().expect(0).says("already completed");
    }
}

#[test]
fn a_deleted_workspace_is_no_completion_and_the_prompt_comes_back() {
    let env = hostile();
    let config = env.read("ralph.toml");
    env.agent.call(1).script("rm -rf \"$PWD\"\n").out(PROMISE);
    env.agent.call(2).script(WORK);
    let ended = env.run();
    assert!(prompt_given(&env, 2).ends_with("# Task\n\nMake a file called done.\n"));
    env.write("ralph.toml", config);
    ends(&env, "deleted", &ended, completed(2, &["done"]));
}

#[test]
fn folders_that_may_not_be_entered_end_no_run() {
    let env = hostile();
    env.agent.call(1).script("mkdir -p a/b; echo x > a/b/c; chmod 000 a/b/c a/b a\n").out(PROMISE);
    env.agent.call(2).script("chmod -R 755 a; touch done\n");
    let ended = env.run();
    ends(&env, "rights", &ended, completed(2, &["a", "done"]));
}

#[test]
fn a_repository_that_is_reset_cleaned_or_broken_ends_no_run() {
    for (what, sabotage) in [
        ("cleaned", "git clean -qfdx"),
        ("reset", "git reset -q --hard"),
        ("stashed", "git -c user.name=a -c user.email=a@b.c stash -qu"),
        (
            "rewritten",
            "git -c user.name=a -c user.email=a@b.c commit -q --amend -m x --no-verify; git gc -q --prune=now",
        ),
        ("gone", "rm -rf .git"),
        ("a broken index", "head -c 999 /dev/urandom > .git/index"),
        ("a broken head", "echo nonsense > .git/HEAD"),
        ("a FIFO for an index", "rm .git/index; mkfifo .git/index"),
        ("everything ignored", "echo '*' > .gitignore"),
        ("rules without end", "rm -f .gitignore; mkfifo .gitignore"),
    ] {
        let env = hostile();
        let (prompt, config) = (env.read("PROMPT.md"), env.read("ralph.toml"));
        env.write("source", "1");
        let git = "git init -q && git add source && git -c user.name=a -c user.email=a@b.c commit -qm start";
        let made =
            Command::new("sh").args(["-c", git]).current_dir(env.workspace()).status().unwrap();
        assert!(made.success());
        env.agent.call(1).script(&format!("({sabotage}) > /dev/null 2>&1\n")).out(PROMISE);
        env.agent.call(2).script("rm -f .gitignore; touch done\n");
        let ended = env.run();
        assert!(prompt_given(&env, 2).ends_with(&prompt), "{what}");
        // Untracked, so it went with the rest.
        env.write("ralph.toml", config);
        ends(&env, what, &ended, completed(2, &[".git", "done", "source"]));
    }
}

#[test]
fn a_workspace_that_became_a_file_is_an_error_and_no_completion() {
    let env = hostile();
    env.agent.call(1).script("w=$PWD; cd /; rm -rf \"$w\"; echo > \"$w\"\n").out(PROMISE);
    let config = env.read("ralph.toml");
    let ended = env.run();
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:?}");
    ended.says(&env.workspace().display().to_string());
    fs::remove_file(env.workspace()).unwrap();
    fs::create_dir(env.workspace()).unwrap();
    env.write("PROMPT.md", "# Task\n");
    env.write("ralph.toml", config);
    assert_ne!(env.status()["latch"]["state"], "completed");
    env.agent.call(2).script(WORK).out(PROMISE);
    // It is another folder than the one in which the run began.
    env.ralph(&["run", "--restart"]).expect(0);
}

#[test]
fn an_agent_that_writes_its_own_state_into_the_workspace_is_not_believed() {
    let env = hostile();
    env.agent.call(1).script(
        "cp -a \"$HOME\"/.local/state/ralph-orchestrator/* .ralph
             sed -i 's/\"state\":\"open\"/\"state\":\"completed\"/' .ralph/latch
             echo '{\"phase\":\"completed\"}' > .ralph/status.json\n",
    );
    let ended = env.ralph(&["run", "--max-iterations", "1"]);
    ends(&env, "own state", &ended, stopped("max_iterations", 1, &[".ralph"]));
}
