//! RUN lines that have to be run: once for each task, into files that all its trials get.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::environment::{TestEnvironment, eventually, of_run};

use super::{SOLVES, add_task, environment, trial_files};

const ARGS: [&str; 6] = ["bench", "run", "--agents", "solves", "--setup", "--trials"];

/// A task whose Dockerfile goes on with these lines. The folder `agents` is seen by them.
fn with_lines(lines: &str) -> TestEnvironment {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    let file = "tasks/one/environment/Dockerfile";
    env.write(file, format!("{}{lines}", env.read(file)));
    env
}

fn run(env: &TestEnvironment, job: &str, trials: &str, more: &[&str]) -> crate::environment::Ended {
    env.ralph(&[&ARGS[..], &[trials, "--out", job], more].concat())
}

/// What the work directories of a job's attempts have in a file.
fn in_work(env: &TestEnvironment, job: &str, file: &str) -> Vec<String> {
    let trials = fs::read_dir(env.path(job)).unwrap().map(|entry| entry.unwrap().path());
    let app = |trial: PathBuf| trial.join("attempts/1/environment/root/app").join(file);
    trials.filter_map(|trial| fs::read_to_string(app(trial)).ok()).collect()
}

/// The names in the folder of layers.
fn layers(env: &TestEnvironment) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![env.root()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.file_name().is_some_and(|name| name == "bench-setup") {
                let names = fs::read_dir(&path).unwrap();
                found.extend(names.map(|name| name.unwrap().file_name().into_string().unwrap()));
            } else if path.is_dir() && !path.is_symlink() {
                open.push(path);
            }
        }
    }
    found.retain(|name| !name.ends_with(".lock"));
    found
}

#[test]
fn lines_are_run_once_in_their_order_and_all_trials_get_what_they_made() {
    let env = with_lines(
        "RUN od -An -N8 -tx1 /dev/urandom > made.txt && ln -s /app/made.txt link && printf old > name.txt\n\
         COPY name.txt /app/\nENV WORD=said\nRUN echo \"$WORD\" >> made.txt; echo kept > \"$HOME/of-home\"\n",
    );
    env.ralph(&["bench", "check", "--agents", "solves"]).expect(78).says("--setup");
    run(&env, "job", "2", &["-n", "2"]).expect(0);
    run(&env, "again", "1", &[]).expect(0);
    let made = [in_work(&env, "job", "made.txt"), in_work(&env, "again", "made.txt")].concat();
    assert_eq!(made.len(), 3);
    assert!(made[0].ends_with("said\n"), "{made:?}");
    assert!(made.iter().all(|text| *text == made[0]), "run once: {made:?}");
    for trial in fs::read_dir(env.path("job")).unwrap().map(|entry| entry.unwrap().path()) {
        let app = trial.join("attempts/1/environment/root/app");
        if app.exists() {
            assert_eq!(fs::read_link(app.join("link")).unwrap(), PathBuf::from("/app/made.txt"));
            assert!(app.join("../../home/of-home").exists());
        }
    }
    // The file that is copied later takes the place of the one that was made.
    assert_eq!(in_work(&env, "job", "name.txt"), ["one", "one"]);
    assert_eq!(layers(&env).len(), 1);
    assert!(trial_files(&env, "job").iter().all(|trial| trial["rewards"]["reward"] == 1.0));
}

#[test]
fn a_line_before_the_work_directory_may_make_it() {
    let env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    let lines = "FROM x\nENV DIR=/app/deep\nRUN mkdir -p $DIR && echo made > ${DIR}/made.txt\nWORKDIR /app\nCOPY . /app/\n";
    env.write("tasks/one/environment/Dockerfile", lines);
    env.ralph(&["bench", "check", "--agents", "solves", "--setup", "--deep"]).expect(0);
    run(&env, "job", "1", &[]).expect(0);
    assert_eq!(in_work(&env, "job", "deep/made.txt"), ["made\n"]);
}

#[test]
fn a_deep_check_starts_one_environment_of_each_dockerfile() {
    let env = with_lines("RUN false && touch made\n");
    let lines = env.read("tasks/one/environment/Dockerfile");
    ["same", "other"].iter().for_each(|task| add_task(&env, task, 600));
    env.write("tasks/same/environment/Dockerfile", lines);
    let check = ["bench", "check", "--agents", "solves", "--setup"];
    env.ralph(&check).expect(0);
    let ended = env.ralph(&[&check[..], &["--deep"]].concat()).expect(78);
    let started = ended.stderr.matches("starting the environment of").count();
    assert_eq!(started, 2, "{}", ended.stderr);
    ended.says("Dockerfile:4: RUN: ").says("1 task cannot be performed here");
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn a_line_that_fails_is_named_and_leaves_no_layer() {
    let env = with_lines("RUN true\nRUN echo about to fail; echo why >&2; exit 3\n");
    run(&env, "job", "1", &[]).expect(1);
    let trials = trial_files(&env, "job");
    assert_eq!(trials.len(), 1, "it is not repeated: {trials:#?}");
    let fault = &trials[0]["fault"];
    assert_eq!((&fault["cause"], &fault["kind"]), (&"sandbox".into(), &"TaskSetupError".into()));
    let message = fault["message"].as_str().unwrap();
    for text in ["tasks/one/environment/Dockerfile:5: RUN: ", "3", "about to fail", "why"] {
        assert!(message.contains(text), "{text}: {message}");
    }
    assert_eq!(layers(&env), Vec::<String>::new());
}

#[test]
fn there_is_no_network_and_no_way_into_the_system_unless_it_is_requested() {
    let env = with_lines(
        "RUN test \"$(tail -n +3 /proc/net/dev | wc -l)\" = 1 && ! touch /usr/made 2>&1\n",
    );
    run(&env, "job", "1", &[]).expect(0);
    // With the machine's network it is another layer.
    let public = ["bench", "run", "--agents", "solves", "--setup=public", "--out", "public"];
    let ended = env.ralph(&public);
    let has_more = fs::read_to_string("/proc/net/dev").unwrap().lines().skip(2).count() > 1;
    ended.expect(i32::from(has_more));
}

#[test]
fn two_jobs_at_once_run_it_once_and_a_killed_one_leaves_nothing_half_made() {
    let env = with_lines("");
    let wait = format!(
        "RUN while [ ! -e '{0}/go' ]; do sleep 0.02; done; od -An -N8 -tx1 /dev/urandom > made.txt\n",
        env.path("agents").display()
    );
    let file = "tasks/one/environment/Dockerfile";
    env.write(file, format!("{}{wait}", env.read(file)));
    let start = |job: &str| env.start(&[&ARGS[..], &["1", "--out", job]].concat());
    let mut killed = start("killed");
    let is_begun = || layers(&env).iter().any(|name| name.ends_with(".part"));
    eventually("the setup", is_begun);
    killed.signal(Signal::KILL);
    killed.wait();
    eventually("the end of what was killed", || of_run(&env.root()).is_empty());
    assert!(layers(&env).iter().all(|name| name.ends_with(".part")));

    let (mut one, mut two) = (start("one"), start("two"));
    eventually("both jobs", || {
        ["one", "two"].iter().all(|job| env.path(job).join("bench.json").exists())
    });
    env.write("agents/go", "");
    one.wait().expect(0);
    two.wait().expect(0);
    assert_eq!(layers(&env).len(), 1);
    assert_eq!(in_work(&env, "one", "made.txt"), in_work(&env, "two", "made.txt"));
    env.ralph(&["bench", "resume", "killed"]).expect(0);
}

#[test]
fn a_link_that_a_line_makes_leads_no_later_line_out() {
    for last in
        ["COPY name.txt /app/out/", "RUN mkdir -p /app/out/made", "RUN chmod 0777 /app/out/kept"]
    {
        let env = with_lines("");
        env.write("outside/kept", "as it was");
        let file = "tasks/one/environment/Dockerfile";
        let lines = format!("RUN ln -s '{}' /app/out\n{last}\n", env.path("outside").display());
        env.write(file, format!("{}{lines}", env.read(file)));
        run(&env, "job", "1", &[]).expect(1);
        let trials = trial_files(&env, "job");
        let last_fault = &trials[0]["fault"];
        assert_eq!(last_fault["cause"], "sandbox", "{last}: {trials:#?}");
        let names = fs::read_dir(env.path("outside")).unwrap();
        assert_eq!(names.count(), 1, "{last}");
        let mode = fs::metadata(env.path("outside/kept")).unwrap().permissions();
        assert_ne!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o777, "{last}");
    }
}

#[test]
fn lines_of_a_verifiers_own_environment_are_run_once_and_the_agent_sees_nothing_of_them() {
    let own = "FROM debian:12\nWORKDIR /check\nCOPY . /tests\nRUN echo made > made.txt; echo kept > \"$HOME/of-home\"\n";
    let tests = "if [ \"$(cat made.txt)\" = made ] && [ -e \"$HOME/of-home\" ] && [ \"$(cat /app/out.txt)\" = hello ]; \
                 then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n";
    // Without a Dockerfile of its own it is the agent's environment once more.
    for (of_agent, of_verifier) in
        [("", Some(own)), ("RUN echo made > made.txt; echo kept > \"$HOME/of-home\"\n", None)]
    {
        let env = with_lines(of_agent);
        let text = env.read("tasks/one/task.toml");
        let text = text.replace("[verifier]\n", "[verifier]\nenvironment_mode = \"separate\"\n");
        env.write("tasks/one/task.toml", format!("artifacts = [\"/app/out.txt\"]\n{text}"))
            .write("tasks/one/tests/test.sh", tests);
        if let Some(dockerfile) = of_verifier {
            env.write("tasks/one/tests/Dockerfile", dockerfile);
        }
        env.ralph(&["bench", "check", "--agents", "solves"]).expect(78).says("--setup");
        run(&env, "job", "2", &["-n", "2"]).expect(0);
        let trials = trial_files(&env, "job");
        assert!(trials.iter().all(|trial| trial["rewards"]["reward"] == 1.0), "{trials:#?}");
        assert_eq!(layers(&env).len(), 1);
        let seen = in_work(&env, "job", "made.txt").len();
        assert_eq!(seen, if of_verifier.is_some() { 0 } else { 2 });
    }
}
