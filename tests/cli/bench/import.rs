//! `bench import`: a completed run as a task.

use std::fs;
use std::path::Path;

use crate::environment::{TestEnvironment, eventually};
use crate::git::{committed, git};

use super::{append, names, trial_of};

const CLAIM: &str = "<promise>COMPLETE: the work is done</promise>\n";

/// A repository in which a run with checkpoints has changed files in every way.
fn completed() -> TestEnvironment {
    let env = committed("checkpoint");
    append(&env, "[env.set]\nMODE = \"test\"\nSERVICE_TOKEN = \"hidden\"\n");
    env.write("old.txt", "old\n").write("it's here.txt", "one\n").write("run.sh", "#!/bin/sh\n");
    // The configuration has a secret.
    env.write(".gitignore", "ralph.toml\n");
    git(&env, &["rm", "-q", "--cached", "ralph.toml"]);
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "more"]);
    let script = "rm old.txt; echo two > \"it's here.txt\"; chmod +x run.sh; mkdir deep; echo x > deep/new\n\
                  ln -s deep/new link; touch done\n";
    env.agent.call(1).script(script).out(CLAIM);
    env.run().expect(0).says("completed");
    env
}

/// The task that `import` says it has made.
fn imported(env: &TestEnvironment, args: &[&str]) -> String {
    let ended = env.ralph(&[&["bench", "import"][..], args].concat()).expect(0);
    ended.stdout.trim_end().to_owned()
}

#[test]
fn a_run_is_a_task_that_its_own_work_solves_and_nothing_else() {
    for isolation in ["namespace", "none"] {
        let env = completed();
        let args =
            ["--to", "tasks", "--name", "mine", &format!("--set=bench.isolation={isolation}")];
        let task = imported(&env, &args);
        assert_eq!(Path::new(&task), env.path("tasks/mine"));
        let text = env.read("tasks/mine/ralph.toml");
        assert!(text.contains("MODE = \"test\"") && !text.contains("hidden"), "{text}");
        assert_eq!(env.read("tasks/mine/work/old.txt"), "old\n");
        assert!(!env.path("tasks/mine/work/done").exists());
        let left: Vec<String> = names(&env.path("tasks"));
        assert_eq!(left, ["mine"], "nothing of the making is left");

        // An agent that looks for the solution finds none.
        let looks = format!(
            "find .. -name 'solve*' > found
             find '{}' /app /logs /solution /tests -name solve.sh -path '*/solution/*' >> found 2> /dev/null
             [ -s found ] && cp -R ../solution/files/. .
             echo '<promise>COMPLETE</promise>'\n",
            env.root().display()
        );
        super::add_script(&env, "looks", &looks);
        append(&env, &super::unmetered("looks"));
        append(&env, "[sandbox]\nread = [\"agents\"]\n");
        let run = ["bench", "run", "--agents", "oracle,nop,looks", "--tasks", "tasks"];
        let isolation = format!("--isolation={isolation}");
        env.ralph(&[&run[..], &["--out", "job", &isolation]].concat()).expect(0);
        for (agent, reward) in [("oracle", 1.0), ("nop", 0.0), ("looks", 0.0)] {
            let trial = trial_of(&env, "job", agent);
            assert_eq!(trial["rewards"]["reward"], reward, "{isolation} {agent}: {trial:#}");
        }
        // What the oracle leaves is what the run left.
        let work = find(&env.path("job"), "deep").parent().unwrap().to_owned();
        assert_eq!(fs::read_to_string(work.join("it's here.txt")).unwrap(), "two\n");
        assert_eq!(fs::read_link(work.join("link")).unwrap(), Path::new("deep/new"));
        assert!(!work.join("old.txt").exists());
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(work.join("run.sh")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o111, 0o111);
    }
}

#[test]
fn what_proves_nothing_makes_no_task() {
    let env = committed("checkpoint");
    let text = env.read("ralph.toml").replacen(
        "program = [\"test\", \"-e\", \"done\"]",
        "program = [\"true\"]",
        1,
    );
    env.raw_config(&text);
    env.agent.call(1).script("touch done\n").out(CLAIM);
    env.run().expect(0);
    let import = ["bench", "import", "--name", "weak"];
    env.ralph(&import).expect(64).says("accept the workspace from before the run").says("--keep");
    assert!(names(&env.path("tasks")).is_empty());
    env.ralph(&[&import[..], &["--keep"]].concat()).expect(1).says("prove nothing");
    assert_eq!(names(&env.path("tasks")), ["weak"]);
    env.ralph(&import).expect(64).says("is there already").says("--name");
}

#[test]
fn only_what_validators_accepted_and_checkpoints_have_is_a_task() {
    let env = committed("checkpoint");
    let import = ["bench", "import"];
    env.ralph(&import).expect(64).says("there is no run");
    env.agent.call(1).script("touch half\n");
    env.ralph(&["run", "--once"]);
    env.ralph(&import).expect(64).says("not complete by validators");
    env.ralph(&["bench", "import", "0000"]).expect(64).says("begins with `0000`");
    let env = committed("off");
    env.agent.call(1).script("touch done\n").out(CLAIM);
    env.run().expect(0);
    env.ralph(&import).expect(64).says("[git] commit = \"checkpoint\"");
    let env = completed();
    for name in ["../up", ".hidden", "a/b", ""] {
        env.ralph(&["bench", "import", "--name", name]).expect(64).says("no name of a folder");
    }
    assert!(!env.path("tasks").exists());
}

#[test]
fn a_killed_import_leaves_no_task_and_another_one_is_not_disturbed() {
    let env = committed("checkpoint");
    let (entered, release) = (env.fifo("entered"), env.fifo("release"));
    let hold = env.path("../hold");
    // The check waits while there is a file beside the workspace.
    let waits = format!(
        "[ ! -e '{}' ] || {{ echo > '{}'; cat '{}' > /dev/null; }}; test -e done",
        hold.display(),
        entered.display(),
        release.display()
    );
    let program = format!("program = [\"sh\", \"-c\", \"{waits}\"]");
    let text =
        env.read("ralph.toml").replacen("program = [\"test\", \"-e\", \"done\"]", &program, 1);
    env.raw_config(&text);
    env.agent.call(1).script("touch done\n").out(CLAIM);
    env.run().expect(0);
    fs::write(&hold, "").unwrap();
    let args = ["bench", "import", "--name", "mine", "--set=bench.isolation=none"];
    let mut first = env.start(&args);
    fs::read(&entered).unwrap();
    env.ralph(&args).expect(64).says("another import makes the task mine");
    first.signal(rustix::process::Signal::KILL);
    drop(first.wait());
    assert!(!env.path("tasks/mine").exists());
    fs::remove_file(&hold).unwrap();
    eventually("the next import", || env.ralph(&args).code == Some(0));
    assert_eq!(names(&env.path("tasks")), ["mine"]);
}

#[test]
fn only_what_was_recorded_becomes_a_task() {
    // Another commit in the place of the accepted one, with a file that nobody validated.
    let env = completed();
    let refs = git(&env, &["for-each-ref", "--format=%(refname)", "refs/ralph"]);
    let last = refs.lines().last().unwrap();
    let blob = git(&env, &["hash-object", "-w", "ralph.toml"]);
    git(&env, &["read-tree", last]);
    git(&env, &["update-index", "--add", "--cacheinfo", &format!("100644,{blob},evil")]);
    let tree = git(&env, &["write-tree"]);
    let commit = git(&env, &["commit-tree", &tree, "-m", "other"]);
    git(&env, &["update-ref", last, &commit]);
    env.ralph(&["bench", "import", "--name", "mine"]).expect(0).says("was set to");
    let files = names(&env.path("tasks/mine/solution/files"));
    assert!(files.contains(&"done".to_owned()) && !files.contains(&"evil".to_owned()), "{files:?}");

    // Weaker validators in the stored configuration.
    let env = completed();
    let run = fs::read_dir(env.state().join("runs")).unwrap().next().unwrap().unwrap().path();
    let config = run.join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("\"done\"", "\"done\", \"-o\", \"-e\", \"half\"")).unwrap();
    env.ralph(&["bench", "import"]).expect(64).says("not those that were recorded");

    // A prompt elsewhere that asks for something else now.
    let env = committed("checkpoint");
    fs::write(env.path("../task.md"), "Make a file called done.\n").unwrap();
    append(&env, "");
    let text = env.read("ralph.toml").replacen("[run]", "[run]\nprompt = \"../task.md\"", 1);
    env.raw_config(&text);
    env.agent.call(1).script("touch done\n").out(CLAIM);
    env.run().expect(0);
    let prompt = env.path("../task.md");
    fs::write(&prompt, "Make another file.\n").unwrap();
    env.ralph(&["bench", "import"]).expect(64).says("not those that were recorded");
    fs::write(&prompt, "Make a file called done.\n").unwrap();
    env.ralph(&["bench", "import", "--name", "mine"]).expect(0);
    assert_eq!(env.read("tasks/mine/PROMPT.md"), "Make a file called done.\n");
    assert!(!env.path("tasks/evil").exists());
}

#[test]
fn a_secret_in_a_file_of_the_workspace_makes_no_task() {
    let env = committed("checkpoint");
    append(&env, "[env.set]\nSERVICE_TOKEN = \"hidden-1234\"\n");
    env.agent.call(1).script("touch done\n").out(CLAIM);
    env.run().expect(0);
    let import = ["bench", "import", "--name", "mine"];
    let ended = env.ralph(&import).expect(64);
    ended.says("work/ralph.toml has the secret env.set.SERVICE_TOKEN").says("[env] pass");
    assert!(names(&env.path("tasks")).is_empty());
    env.ralph(&[&import[..], &["--keep"]].concat()).expect(0);
}

#[test]
fn folders_that_became_files_and_folders_that_went_are_part_of_the_solution() {
    let env = committed("checkpoint");
    fs::create_dir_all(env.path("deep/folder")).unwrap();
    env.write("deep/folder/one", "1\n").write("gone/two", "2\n");
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "more"]);
    let text = env.read("ralph.toml").replacen(
        "program = [\"test\", \"-e\", \"done\"]",
        "program = [\"sh\", \"-c\", \"test -f deep && ! test -e gone\"]",
        1,
    );
    env.raw_config(&text);
    env.agent.call(1).script("rm -r deep gone; echo file > deep\n").out(CLAIM);
    env.run().expect(0);
    env.ralph(&["bench", "import", "--name", "mine"]).expect(0);
}

/// The first folder of this name below another.
fn find(folder: &Path, name: &str) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                if path.file_name().unwrap() == name {
                    return path;
                }
                folders.push(path);
            }
        }
    }
    panic!("no {name} below {}", folder.display());
}
