//! Workers in pods of a Kubernetes, for which a script stands in: it refuses what batch/v1 does not allow, and starts each pod
//! as a process of this machine.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::environment::{TestEnvironment, eventually, of_run, tested_program};

use super::crash::{RUN, job, lines};
use super::engine::python;
use super::slurm::{check_equal_to_one_machine, states};
use super::{append, status};

/// A job of which nothing is performed, whose agents wait in their second iteration, and the cluster of its configuration,
/// with more keys of its pods.
fn planned_job(pod: &str) -> TestEnvironment {
    let mut env = job();
    let folder = env.root().join("kubernetes");
    fs::create_dir_all(&folder).unwrap();
    env.write(
        "../kubernetes/kubectl",
        format!("#!{} -IS\n{}", python(), include_str!("stand_in.py")),
    );
    env.write_mode("../kubernetes/kubectl", 0o755);
    env.var("PATH", &format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    let (program, mount) = (tested_program().display(), env.root());
    append(
        &env,
        &format!(
            "[bench.cluster]\nkind = \"kubernetes\"\nprogram = \"{program}\"\nkubectl_args = [\"--context=lab\"]\n\
             [bench.cluster.pod]\nimage = \"bench:1\"\nclaim = \"bench\"\n{pod}\nmount = \"{}\"\n",
            mount.display()
        ),
    );
    env.write("shared/hold", "");
    env.ralph(&[&RUN[..], &["--plan-only"]].concat()).expect(0);
    env
}

/// What starts pods. They end with it.
struct Controller(Child);

impl Controller {
    fn start(env: &TestEnvironment) -> Self {
        let mut command = Command::new(env.root().join("kubernetes/kubectl"));
        command.arg("controller").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the stand-in did not start");
        Self(child)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn submit(env: &TestEnvironment, more: &[&str]) -> crate::environment::Ended {
    env.ralph(&[&["bench", "submit", "job", "--workers", "3"], more].concat())
}

/// The process of a worker that lives.
fn worker_pid(env: &TestEnvironment) -> Pid {
    let workers = &status(env, "job")["workers"];
    Pid::from_raw(workers[0]["pid"].as_i64().unwrap().try_into().unwrap()).unwrap()
}

#[test]
fn pods_share_a_job_and_one_that_is_lost_is_started_anew() {
    let env = planned_job("storage = \"1Gi\"\nstorage_class = \"nfs\"");
    let controller = Controller::start(&env);
    let shown = submit(&env, &["--dry-run"]).expect(0);
    shown.says("kubectl --context=lab apply -f -");
    let manifest: Value = serde_json::from_str(&shown.stdout).unwrap();
    let [claim, pods] = [&manifest["items"][0], &manifest["items"][1]];
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
    assert_eq!(
        (&pods["spec"]["completionMode"], &pods["spec"]["completions"]),
        (&"Indexed".into(), &3.into())
    );
    let started = |what: &str| env.root().join("kubernetes").join(what).exists();
    assert!(!started("PersistentVolumeClaim-bench"));
    submit(&env, &[]).expect(0).says("kubernetes job bench-");
    assert!(started("PersistentVolumeClaim-bench"));
    eventually("an agent in each pod", || lines(&env, "shared/second") == 3);
    assert_eq!(states(&env), ["Running"; 3]);
    env.ralph(&["bench", "status", "job"]).expect(0).says(": 3 running\n");
    kill_process(worker_pid(&env), Signal::KILL).unwrap();
    eventually("a further pod", || states(&env).len() == 4);
    let mut now = states(&env);
    now.sort_unstable();
    assert_eq!(now, ["Failed", "Running", "Running", "Running"]);
    fs::remove_file(env.path("shared/hold")).unwrap();
    eventually("the end of the job", || status(&env, "job")["is_running"] == false);
    eventually("the end of all pods", || !states(&env).contains(&"Running".to_owned()));
    check_equal_to_one_machine(&env);
    // The claim of the volume is as it was, and what is left of the Job goes.
    env.ralph(&["bench", "cancel", "job"]).expect(0).says(": 0 workers cancelled");
    assert!(states(&env).is_empty());
    drop(controller);
    eventually("the end of all that was started", || of_run(&env.root()).is_empty());
}

#[test]
fn pods_that_are_cancelled_leave_their_trials_to_others() {
    let env = planned_job("secret = \"keys\"\ncpus = 2");
    env.write("../kubernetes/PersistentVolumeClaim-bench", "{}");
    let controller = Controller::start(&env);
    submit(&env, &[]).expect(0);
    eventually("pods that wait for their secret", || states(&env) == ["Pending"; 3]);
    env.write("../kubernetes/Secret-keys", "{\"RALPH_TRUST\": \"always\"}");
    eventually("two agents in each pod", || lines(&env, "shared/second") == 6);
    env.ralph(&["bench", "cancel", "job"]).expect(0).says(": 3 workers cancelled");
    assert!(states(&env).is_empty());
    let now = status(&env, "job");
    assert_eq!((&now["is_running"], &now["judged"]), (&false.into(), &0.into()), "{now}");
    fs::remove_file(env.path("shared/hold")).unwrap();
    env.ralph(&["bench", "work", "job"]).expect(0);
    check_equal_to_one_machine(&env);
    drop(controller);
    eventually("the end of all that was started", || of_run(&env.root()).is_empty());
}

#[test]
fn what_pods_would_not_see_and_what_kubectl_refuses_is_said() {
    let env = planned_job("storage = \"much\"");
    submit(&env, &[]).expect(69).says("`kubectl` failed").says("no quantity of storage");
    assert_eq!(status(&env, "job")["cluster"], json!([]));
    let elsewhere = env.read("ralph.toml").replace("\nmount = ", "\nmount = \"/volume\" # ");
    env.raw_config(&elsewhere);
    submit(&env, &[])
        .expect(78)
        .says("bench.cluster.pod.mount, which is /volume")
        .says("job is not");
}
