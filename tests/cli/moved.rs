//! Workspaces that are moved, copied, replaced or exchanged: a run stays that of its folder.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::screen::Screen;
use crate::trust::{DONE, after_work, asking, edit};

#[test]
fn a_workspace_that_is_moved_or_renamed_keeps_its_run() {
    let env = after_work("");
    let id = env.status()["run"].clone();
    let moved = env.root().join("renamed");
    fs::rename(env.workspace(), &moved).unwrap();
    let there = |args: &[&str]| {
        let mut command = env.command(args);
        let output = command.current_dir(&moved).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), shown, said)
    };
    let (status, shown, said) = there(&["status", "--json"]);
    assert_eq!(status, 0, "{said}");
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["run"], id);
    assert_eq!(there(&["run", "--max-iterations", "2"]).0, 1);
    // And back: the prompt is the same.
    fs::rename(&moved, env.workspace()).unwrap();
    let back = env.ralph(&["run", "--max-iterations", "3"]).expect(1);
    assert!(!back.stderr.contains("run.prompt is"), "{}", back.stderr);
    fs::rename(env.workspace(), &moved).unwrap();
    env.agent.default_call().script("touch done\n").out(DONE);
    let (status, shown, said) = there(&["run", "--max-iterations", "4"]);
    assert_eq!(status, 0, "{shown}{said}");
    let (status, shown, said) = there(&["run"]);
    assert_eq!((status, env.agent.calls()), (0, 4), "{shown}{said}");
    assert!(shown.contains("already completed"), "{shown}{said}");
    // What takes the old place is another workspace, and what is done there leaves this run alone.
    copy_folder(&moved, &env.workspace());
    fs::remove_file(env.path("done")).unwrap();
    assert_eq!(env.status()["run"], Value::Null);
    env.ralph(&["reset", "--yes"]).expect(0).says("nothing to delete");
    let own = env.ralph(&["run", "--once"]).expect(0);
    own.says("stays with that").says(&moved.display().to_string());
    assert_ne!(env.status()["run"], id);
    let (_, shown, said) = there(&["status", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["run"], id, "{said}");
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// Puts a copy in the place of the workspace, as a backup or a new clone is one.
fn replace_by_copy(env: &TestEnvironment) {
    let kept = env.root().join("kept");
    fs::rename(env.workspace(), &kept).unwrap();
    copy_folder(&kept, &env.workspace());
    fs::remove_dir_all(kept).unwrap();
}

#[test]
fn a_copy_of_the_workspace_goes_on_with_the_run_once_it_is_accepted() {
    let env = after_work("");
    replace_by_copy(&env);
    let more = &["run", "--max-iterations", "2"];
    env.ralph(more).expect(65).says("`ralph-orchestrator trust` accepts it");
    env.ralph(&["doctor"]).expect(65).says("`ralph-orchestrator trust` accepts it");
    assert_eq!(env.agent.calls(), 1);
    env.ralph(&["trust"]).expect(0).says("as the workspace of run");
    env.ralph(&["trust"]).expect(0).says("nothing to accept");
    env.ralph(more).expect(1).says("resumed");
    assert_eq!(env.agent.calls(), 2);
    // What was accepted is this folder, not whichever has the path.
    replace_by_copy(&env);
    env.ralph(&["run", "--max-iterations", "3"]).expect(65);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn what_takes_the_place_of_a_moved_folder_takes_nothing_of_its_run() {
    let env = after_work("");
    let id = env.status()["run"].clone();
    let moved = env.root().join("moved");
    fs::rename(env.workspace(), &moved).unwrap();
    copy_folder(&moved, &env.workspace());
    let there = |args: &[&str]| {
        let output = env.command(args).current_dir(&moved).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let run_there = || serde_json::from_str::<Value>(&there(&["status", "--json"]).1).unwrap();
    env.ralph(&["reset", "--yes"]).expect(64).says("nothing was deleted");
    env.ralph(&["run", "--restart"]).expect(1).says("belongs to another folder that had this path");
    assert_eq!((env.agent.calls(), env.agent.cwd(2)), (2, env.workspace()));
    assert_eq!(run_there()["run"], id);
    assert_ne!(env.status()["run"], id);
    env.ralph(&["run", "--max-iterations", "2"]).expect(1).says("resumed");
    assert_eq!(there(&["run", "--max-iterations", "2"]).0, 1);
    assert_eq!((env.agent.calls(), env.agent.cwd(4)), (4, moved.clone()));
    env.ralph(&["reset", "--yes"]).expect(0);
    assert_eq!((&run_there()["run"], &run_there()["iterations"]), (&id, &2.into()));
}

#[test]
fn a_copy_of_a_moved_folder_has_what_was_accepted_there() {
    let env = after_work("");
    let (moved, kept) = (env.root().join("moved"), env.root().join("kept"));
    fs::rename(env.workspace(), &moved).unwrap();
    let there = |args: &[&str]| {
        let output = env.command(args).current_dir(&moved).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(there(&["run", "--max-iterations", "2"]).0, 1);
    fs::rename(&moved, &kept).unwrap();
    copy_folder(&kept, &moved);
    let (status, said) = there(&["status"]);
    let is_said = said.contains("another folder") && !said.contains("is not used");
    assert!(status == 0 && is_said, "{said}");
    assert_eq!(there(&["run", "--max-iterations", "3"]).0, 65);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_complete_run_is_not_that_of_a_folder_in_which_nothing_was_done() {
    let env = asking();
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(0);
    replace_by_copy(&env);
    fs::remove_file(env.path("done")).unwrap();
    let refused = env.run().expect(65);
    refused.says("was completed").says("`run --restart` begins a new run");
    for look in ["status", "why", "log"] {
        env.ralph(&[look]).expect(0).says("note: workspace").says("was completed");
    }
    // Nor where its configuration cannot be used any more.
    let text = env.read("ralph.toml");
    env.write("ralph.toml", "[[[");
    assert_ne!(env.run().code, Some(0));
    env.write("ralph.toml", text);
    env.ralph(&["trust"]).expect(0);
    env.run().expect(0).says("already completed");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_copy_of_a_workspace_that_was_moved_before_is_one_of_the_run_too() {
    let env = after_work("");
    let (moved, kept) = (env.root().join("renamed"), env.root().join("kept"));
    fs::rename(env.workspace(), &moved).unwrap();
    let there = |args: &[&str]| {
        let output = env.command(args).current_dir(&moved).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(there(&["run", "--max-iterations", "2"]).0, 1);
    fs::rename(&moved, &kept).unwrap();
    copy_folder(&kept, &moved);
    fs::remove_dir_all(kept).unwrap();
    // The copy of the file is accepted as any other.
    assert_eq!(there(&["trust", "ralph.toml"]).0, 0);
    let (status, said) = there(&["run", "--max-iterations", "3"]);
    assert_eq!((status, env.agent.calls()), (65, 2), "{said}");
    assert_eq!(there(&["trust"]).0, 0);
    let (status, said) = there(&["run", "--max-iterations", "3"]);
    assert_eq!((status, env.agent.calls()), (1, 3), "{said}");
    assert!(said.contains("resumed"), "{said}");
}

#[test]
fn a_folder_that_was_moved_and_only_looked_at_is_known_when_a_copy_takes_its_place() {
    let env = after_work("");
    let id = env.status()["run"].clone();
    let (moved, kept) = (env.root().join("moved"), env.root().join("kept"));
    fs::rename(env.workspace(), &moved).unwrap();
    let there = |args: &[&str]| {
        let output = env.command(args).current_dir(&moved).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), said)
    };
    assert_eq!(there(&["status"]).0, 0);
    fs::rename(&moved, &kept).unwrap();
    copy_folder(&kept, &moved);
    fs::remove_dir_all(kept).unwrap();
    let (status, shown, said) = there(&["status", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["run"], id, "{said}");
    assert!(status == 0 && said.contains("another folder"), "{said}");
    let more = &["run", "--max-iterations", "2"];
    assert_eq!((there(more).0, env.agent.calls()), (65, 1));
    assert_eq!(there(&["trust"]).0, 0);
    let (status, shown, said) = there(more);
    assert_eq!((status, env.agent.calls()), (1, 2), "{shown}{said}");
    assert!(said.contains("resumed"), "{said}");
}

#[test]
fn a_new_folder_that_gets_the_inode_of_a_deleted_one_is_another_folder() {
    let env = asking();
    env.agent.default_call().script("touch done\n").out(DONE);
    let kept = env.root().join("kept");
    copy_folder(&env.workspace(), &kept);
    env.run().expect(0);
    fs::remove_dir_all(env.workspace()).unwrap();
    // The file system of the tests may give the next folder the same inode, or not.
    copy_folder(&kept, &env.workspace());
    env.run().expect(65).says("another folder");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_folder_that_is_moved_while_an_agent_works_goes_on_where_it_is() {
    let env = asking();
    env.config("[limits]\nmax_iterations = 3\n");
    let (up, go) = (env.fifo("up"), env.fifo("go"));
    env.agent.call(1).script(&format!("echo x > '{}'; cat '{}'\n", up.display(), go.display()));
    env.agent.call(2).script("touch done\n").out(DONE);
    let mut run = env.start(&["run"]);
    fs::read(&up).unwrap();
    let moved = env.root().join("moved");
    fs::rename(env.workspace(), &moved).unwrap();
    fs::write(&go, "x").unwrap();
    let ended = run.wait();
    assert_ne!(ended.code, Some(0));
    ended.says("was moved to").says(&moved.display().to_string());
    assert!(!env.workspace().exists(), "nothing is made in its old place");
    let output = env.command(&["run"]).current_dir(&moved).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), env.agent.calls()), (Some(0), 2), "{said}");
    assert!(said.contains("resumed"), "{said}");
}

#[test]
fn runs_of_a_configuration_of_another_name_move_with_the_folder() {
    let env = after_work("");
    // What says the same as the accepted file beside it is not asked for.
    fs::copy(env.path("ralph.toml"), env.path("other.toml")).unwrap();
    env.ralph(&["-c", "other.toml", "run"]).expect(1);
    let moved = env.root().join("moved");
    fs::rename(env.workspace(), &moved).unwrap();
    let args = ["-c", "other.toml", "run", "--max-iterations", "2"];
    let output = env.command(&args).current_dir(&moved).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), env.agent.calls()), (Some(1), 3), "{said}");
    assert!(said.contains("resumed"), "{said}");
    // Each is listed, wherever a command was given last, and a third one has nothing to put back.
    let at = |folder: &Path, args: &[&str]| {
        let output = env.command(args).current_dir(folder).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let again = env.root().join("again");
    fs::rename(&moved, &again).unwrap();
    for args in [&["runs", "--json"][..], &["-c", "other.toml", "runs", "--json"]] {
        let shown = at(&again, args);
        let runs: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(runs.as_array().unwrap().len(), 2, "{shown}");
    }
    let third = env.root().join("third");
    fs::rename(&again, &third).unwrap();
    fs::copy(third.join("ralph.toml"), third.join("new.toml")).unwrap();
    let said = at(&third, &["-c", "new.toml", "run", "--once"]);
    assert!(!said.contains("put that back"), "{said}");
}

#[test]
fn folders_that_exchange_their_names_keep_their_runs() {
    let env = after_work("");
    let (other, between) = (env.root().join("other"), env.root().join("between"));
    copy_folder(&env.workspace(), &other);
    let at = |folder: &Path, args: &[&str]| {
        let output = env.command(args).current_dir(folder).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    assert_eq!(at(&other, &["trust"]).0, Some(0));
    assert_eq!(at(&other, &["run"]).0, Some(1));
    let run_of = |folder: &Path| {
        let status: Value = serde_json::from_str(&at(folder, &["status", "--json"]).1).unwrap();
        status["run"].as_str().unwrap().to_owned()
    };
    let (one, two) = (run_of(&env.workspace()), run_of(&other));
    assert_ne!(one, two);
    for (from, to) in [(&env.workspace(), &between), (&other, &env.workspace()), (&between, &other)]
    {
        fs::rename(from, to).unwrap();
    }
    for (folder, run) in [(env.workspace(), &two), (other, &one)] {
        assert_eq!(run_of(&folder), *run);
        let (status, said) = at(&folder, &["run", "--max-iterations", "2"]);
        assert!(status == Some(1) && said.contains(&format!("run {run} resumed")), "{said}");
        assert_eq!(run_of(&folder), *run);
    }
}

/// `-w` means the folder that has the path now, also before a command was given there.
#[test]
fn a_folder_that_is_named_is_judged_and_worked_in_itself() {
    let env = after_work("");
    let (moved, root) = (env.root().join("moved"), env.root());
    fs::rename(env.workspace(), &moved).unwrap();
    copy_folder(&moved, &env.workspace());
    fs::write(env.path("done"), "").unwrap();
    let at = |args: &[&str]| {
        let output = env.command(args).current_dir(&root).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    assert_eq!(at(&["-w", "moved", "verify"]).0, Some(1), "nothing is done there");
    let (status, said) = at(&["-w", "moved", "run", "--max-iterations", "2"]);
    assert!(status == Some(1) && said.contains("resumed"), "{said}");
    assert_eq!((env.agent.calls(), env.agent.cwd(2)), (2, moved));
}

#[test]
fn folders_that_have_exchanged_their_names_are_meant_by_their_names() {
    let env = after_work("");
    let (one, other, between) =
        (env.workspace(), env.root().join("other"), env.root().join("between"));
    copy_folder(&one, &other);
    let at = |folder: &Path, args: &[&str]| {
        let output = env.command(args).current_dir(folder).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    assert_eq!(at(&other, &["trust"]).0, Some(0));
    assert_eq!(at(&other, &["run"]).0, Some(1));
    for (from, to) in [(&one, &between), (&other, &one), (&between, &other)] {
        fs::rename(from, to).unwrap();
    }
    let root = env.root();
    let (status, said) = at(&root, &["-w", "other", "run", "--max-iterations", "2"]);
    assert!(status == Some(1) && said.contains("resumed"), "{said}");
    assert_eq!((env.agent.calls(), env.agent.cwd(3)), (3, other.clone()));
    assert_eq!(at(&root, &["-w", "w", "reset", "--yes"]).0, Some(0));
    let run = |folder: &Path| {
        let shown = at(folder, &["status", "--json"]).1;
        serde_json::from_str::<Value>(&shown).unwrap()["run"].clone()
    };
    assert!(run(&one).is_null() && !run(&other).is_null());
}

#[test]
fn of_folders_that_had_a_path_one_after_the_other_the_last_one_counts() {
    let env = asking();
    env.config("[limits]\nmax_iterations = 1\n");
    env.agent.call(1).script("touch done\n").out(DONE);
    env.agent.default_call().out("hm\n");
    env.run().expect(0);
    let kept = env.root().join("kept");
    let anew = || {
        fs::remove_dir_all(env.workspace()).unwrap();
        copy_folder(&kept, &env.workspace());
        fs::remove_file(env.path("done")).unwrap();
    };
    copy_folder(&env.workspace(), &kept);
    anew();
    env.ralph(&["run", "--restart"]).expect(1);
    let last = env.status()["run"].clone();
    anew();
    env.run().expect(65).says("in which this run began");
    assert_eq!(env.status()["run"], last);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_link_that_is_left_at_the_old_place_hides_no_run() {
    let env = after_work("");
    let run = env.status()["run"].clone();
    let (before, now) = (env.workspace(), env.root().join("moved"));
    fs::rename(&before, &now).unwrap();
    std::os::unix::fs::symlink(&now, &before).unwrap();
    for folder in [&now, &before] {
        let mut there = env.command(&["status", "--json"]);
        let said = there.current_dir(folder).output().unwrap();
        let said: Value = serde_json::from_slice(&said.stdout).unwrap();
        assert_eq!(said["run"], run, "{}", folder.display());
    }
    let mut again = env.command(&["run"]);
    assert_eq!(again.current_dir(&now).status().unwrap().code(), Some(1));
    // The limit of one iteration is used up, so it did not begin anew.
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_file_that_is_accepted_says_nothing_of_the_folder() {
    let env = after_work("");
    replace_by_copy(&env);
    edit(&env, "max_iterations = 1", "max_iterations = 2");
    env.ralph(&["trust"]).expect(0).says("accepted ").says("not accepted yet: workspace");
    env.run().expect(65);
    env.ralph(&["trust"]).expect(0).says("as the workspace of run");
    env.run().expect(1).says("resumed");
}

#[test]
fn what_changes_a_run_is_refused_in_another_folder() {
    let env = after_work("");
    fs::create_dir(env.path("sub")).unwrap();
    fs::copy(env.path("ralph.toml"), env.path("sub/ralph.toml")).unwrap();
    let changes =
        [&["reset", "--yes"][..], &["limits", "--max-iterations", "7"], &["stop"], &["steer", "x"]];
    for args in changes {
        let output = env.command(args).current_dir(env.path("sub")).output().unwrap();
        // To stop is about the run above, which does not work now.
        let status = if args[0] == "stop" { 0 } else { 78 };
        assert_eq!(output.status.code(), Some(status), "{args:?}");
    }
    assert!(!env.status()["run"].is_null());
    replace_by_copy(&env);
    for args in &changes[1..] {
        env.ralph(args).expect(65).says("another folder");
    }
}

#[test]
fn a_copy_of_the_workspace_is_asked_for_at_a_terminal() {
    for (answer, status, calls) in [(b"n\n", 65, 1), (b"y\n", 1, 2)] {
        let env = after_work("");
        replace_by_copy(&env);
        let args = &["run", "--plain", "--max-iterations", "2"];
        let mut screen = Screen::start(&env, args, 100, "xterm");
        screen.shows("is another folder than the one in which run");
        screen.shows("in which the run is to go on?");
        screen.press(answer);
        assert_eq!(screen.wait(), Some(status));
        assert_eq!(env.agent.calls(), calls);
    }
}

#[test]
fn an_agent_accepts_no_copy_of_its_workspace() {
    let env = asking();
    let program = crate::environment::tested_program().display();
    env.config("[limits]\nmax_iterations = 1\n");
    env.agent.default_call().script(&format!(
        "w=$PWD; cd ..; mv \"$w\" kept; cp -a kept \"$w\"; cd \"$w\"; '{program}' trust > ../answer 2>&1\n"
    ));
    env.run().expect(65);
    let answer = fs::read_to_string(env.root().join("answer")).unwrap();
    assert!(answer.contains("accepts no files"), "{answer}");
    env.run().expect(65);
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_workspace_without_a_file_that_is_moved_keeps_its_run() {
    let env = asking();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    let agent = env.agent.program().display().to_string();
    env.agent.default_call().out("hm\n");
    env.agent.call(3).script("touch done\n").out(DONE);
    let goal = ["run", "--once", "--goal", "make done", "--check", "test -e done", "--", &agent];
    env.ralph(&goal).expect(0);
    let moved = env.root().join("renamed");
    fs::rename(env.workspace(), &moved).unwrap();
    for args in [&["run", "--once"][..], &["status"], &goal, &["status"], &["why"], &["run"]] {
        let output = env.command(args).current_dir(&moved).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    }
    assert_eq!(env.agent.calls(), 3);
}

#[test]
fn a_task_that_is_moved_with_its_workspace_goes_on() {
    let env = asking();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    let agent = env.agent.program().display().to_string();
    env.agent.default_call().out("hm\n");
    env.ralph(&["new", "make it", "--test-command", "test -e done"]).expect(0);
    env.ralph(&["go", "1", "--once", "--", &agent]).expect(0);
    let moved = env.root().join("renamed");
    fs::rename(env.workspace(), &moved).unwrap();
    let go = || {
        let output = env.command(&["go", "1", "--once"]).current_dir(&moved).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = go();
    assert_eq!((status, env.agent.calls()), (0, 2), "{said}");
    assert!(said.contains("resumed"), "{said}");
    // What the front matter says is asked for, and nothing else of the plan.
    let plan = moved.join(".ralph/ralph-1/plan.md");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, format!("{text}\nmore to do\n")).unwrap();
    assert_eq!(go().0, 0);
    fs::write(&plan, text.replace("test -e done", "true")).unwrap();
    let (status, said) = go();
    assert_eq!((status, env.agent.calls()), (78, 3), "{said}");
    assert!(!said.contains("run.prompt"), "{said}");
}

#[test]
fn a_task_is_listed_by_its_title_wherever_its_workspace_is() {
    let env = asking();
    env.agent.default_call().out("hm\n");
    env.ralph(&["new", "make it", "--test-command", "test -e done"]).expect(0);
    env.ralph(&["go", "1", "--once"]).expect(0);
    let moved = env.root().join("renamed");
    fs::rename(env.workspace(), &moved).unwrap();
    let listed = env.command(&["runs"]).current_dir(&moved).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("ralph-1: make it"), "{listed}");
}

/// A look changes nothing of what a person has accepted.
#[test]
fn a_folder_in_whose_place_a_copy_was_accepted_says_so_and_takes_its_run_back() {
    let env = after_work("");
    let id = env.status()["run"].clone();
    let moved = env.root().join("moved");
    fs::rename(env.workspace(), &moved).unwrap();
    copy_folder(&moved, &env.workspace());
    let there = |args: &[&str]| {
        let output = env.command(args).current_dir(&moved).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let is_with = |(status, said): (i32, String), expected: i32, folder: &Path| {
        let with = format!("{} was accepted in its place", folder.display());
        assert!(status == expected && said.contains(&with), "{said}");
    };
    env.ralph(&["trust"]).expect(0).says("as the workspace of run");
    is_with(there(&["status"]), 0, &env.workspace());
    env.ralph(&["doctor"]).expect(1);
    env.ralph(&["run", "--max-iterations", "2"]).expect(1).says("resumed");
    for (args, status) in [
        (&["status"][..], 0),
        (&["doctor"], 65),
        (&["run"], 65),
        (&["run", "--dry-run"], 65),
        (&["limits", "--max-iterations", "9"], 65),
    ] {
        is_with(there(args), status, &env.workspace());
    }
    let output = env.command(&["-w", "moved", "status"]).current_dir(env.root()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    is_with((output.status.code().unwrap(), said), 0, &env.workspace());
    assert_eq!(there(&["reset", "--yes"]).0, 64);
    assert_eq!(env.agent.calls(), 2);
    let (status, said) = there(&["trust"]);
    assert!(status == 0 && said.contains("which was that of"), "{said}");
    env.ralph(&["status"]).expect(0).says(&format!("{} was accepted", moved.display()));
    env.ralph(&["run", "--max-iterations", "3"]).expect(65);
    let (status, said) = there(&["run", "--max-iterations", "3"]);
    assert!(status == 1 && said.contains("resumed"), "{said}");
    assert_eq!((env.agent.calls(), env.agent.cwd(3)), (3, moved.clone()));
    // A run of its own leaves that one alone.
    env.ralph(&["run", "--restart"]).expect(1);
    assert_ne!(env.status()["run"], id);
    let (_, shown) = there(&["status", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["run"], id);
}

#[test]
fn a_configuration_beside_its_workspace_keeps_its_run_where_both_are_moved() {
    let env = after_work("");
    let (beside, sub) = (env.root().join("conf"), env.root().join("sub"));
    for folder in [&beside, &sub] {
        fs::create_dir(folder).unwrap();
    }
    let text = env.read("ralph.toml").replacen(
        "delay",
        "workspace = \"../w\"\nprompt = \"../w/PROMPT.md\"\ndelay",
        1,
    );
    fs::write(beside.join("o.toml"), text).unwrap();
    let at = |folder: &Path, args: &[&str]| {
        let args = [&["-c", "conf/o.toml"], args].concat();
        let output = env.command(&args).current_dir(folder).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let (status, said) = at(&env.root(), &["run"]);
    assert_eq!(status, 1, "{said}");
    fs::rename(env.workspace(), sub.join("w")).unwrap();
    for command in ["doctor", "run"] {
        let (status, said) = at(&env.root(), &[command]);
        assert!(status == 65 && said.contains("is gone"), "{said}");
    }
    fs::rename(&beside, sub.join("conf")).unwrap();
    let (status, said) = at(&sub, &["doctor"]);
    assert!(status == 1 && said.contains("no agent would be started"), "{said}");
    let (status, said) = at(&sub, &["run", "--max-iterations", "2"]);
    assert!(status == 1 && said.contains("resumed"), "{said}");
    assert_eq!((env.agent.calls(), env.agent.cwd(3)), (3, sub.join("w")));
}
