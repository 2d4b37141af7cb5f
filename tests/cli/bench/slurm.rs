//! Workers of a job that a real Slurm starts: a controller and three nodes on loopback, which end with the test.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::environment::{TestEnvironment, eventually, of_run};

use super::crash::{RUN, check_whole, job, lines};
use super::{append, report, status};

const NODES: usize = 3;

/// What is the same wherever it runs.
const SETTINGS: &str = "ClusterName=bench
AuthType=auth/munge
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=10
MaxArraySize=8
SlurmdTimeout=10
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmdParameters=config_overrides
TreeWidth=65533
PartitionName=bench Nodes=ALL Default=YES MaxTime=INFINITE State=UP
";

/// A cluster. Its services are killed when it is dropped.
struct Slurm<'a> {
    env: &'a TestEnvironment,
    folder: PathBuf,
    controller: Child,
    nodes: Vec<Child>,
    munge: Child,
}

fn kill(mut service: Child) {
    service.kill().unwrap();
    service.wait().unwrap();
}

impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        let services = self.nodes.iter_mut().chain([&mut self.controller, &mut self.munge]);
        for service in services {
            let _ = service.kill();
            let _ = service.wait();
        }
    }
}

/// Returns ports that nobody listens on.
fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let listeners: [TcpListener; COUNT] =
        std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn write_settings(folder: &Path) {
    let [controller, nodes @ ..] = free_ports::<{ NODES + 1 }>();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    let user = rustix::process::getuid().as_raw();
    let at = folder.display();
    let mut text = format!(
        "{SETTINGS}SlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmUser={user}\nSlurmdUser={user}\n\
         AuthInfo=socket={at}/munge/socket\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool-%n\n\
         SlurmctldPidFile={at}/controller.pid\nSlurmdPidFile={at}/%n.pid\n\
         SlurmctldLogFile={at}/controller.log\nSlurmdLogFile={at}/%n.log\n"
    );
    for (number, port) in nodes.iter().enumerate() {
        text += &format!(
            "NodeName=node{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=500\n"
        );
        fs::create_dir_all(folder.join(format!("spool-node{number}"))).unwrap();
    }
    fs::create_dir_all(folder.join("state")).unwrap();
    fs::write(folder.join("slurm.conf"), text).unwrap();
}

/// Starts what authenticates the services, with a key of its own.
fn start_munge(env: &TestEnvironment, folder: &Path) -> Child {
    let munge = folder.join("munge");
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&munge).unwrap();
    let key = munge.join("key");
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o400).open(&key).unwrap();
    std::io::Write::write_all(&mut file, &[7; 1024]).unwrap();
    drop(file);
    let option = |name: &str, file: &str| format!("--{name}={}", munge.join(file).display());
    let options = [
        "-F".to_owned(),
        option("key-file", "key"),
        option("socket", "socket"),
        option("pid-file", "pid"),
        option("log-file", "log"),
        option("seed-file", "seed"),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let child = start(env, folder, "munged", &options);
    eventually("the socket of munged", || munge.join("socket").exists());
    child
}

fn start(env: &TestEnvironment, folder: &Path, program: &str, args: &[&str]) -> Child {
    let mut command = env.program(Path::new(program));
    command.args(args).env("SLURM_CONF", folder.join("slurm.conf"));
    command.env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap()));
    let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    started.unwrap_or_else(|error| {
        panic!(
            "{program}: {error}; install it: apt-get install slurmctld slurmd slurm-client munge"
        )
    })
}

impl<'a> Slurm<'a> {
    fn start(env: &'a TestEnvironment) -> Self {
        let folder = env.root().join("slurm");
        write_settings(&folder);
        let munge = start_munge(env, &folder);
        let controller = start(env, &folder, "slurmctld", &["-D"]);
        let node = |number| start(env, &folder, "slurmd", &["-D", "-N", &format!("node{number}")]);
        let nodes = (0..NODES).map(node).collect();
        let slurm = Self { env, folder, controller, nodes, munge };
        eventually("idle nodes", || slurm.run("sinfo", &["-h", "-o", "%T %D"]) == "idle 3");
        slurm
    }

    /// Runs one of its commands, and returns what that prints.
    fn run(&self, program: &str, args: &[&str]) -> String {
        let mut command = self.env.program(Path::new(program));
        command.args(args).env("SLURM_CONF", self.folder.join("slurm.conf"));
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// A job of which nothing is performed, whose agents wait in their second iteration, and the cluster of its configuration.
fn planned_job(sbatch_args: &str) -> TestEnvironment {
    let mut env = job();
    // The first stands for what the nodes' own environments would give a user.
    let args = format!("sbatch_args = [\"--export=HOME,RALPH_TRUST\", {sbatch_args}]\n");
    append(&env, &format!("[bench.cluster]\nkind = \"slurm\"\n{args}"));
    env.write("shared/hold", "");
    env.var("SLURM_CONF", &env.root().join("slurm/slurm.conf").display().to_string());
    env.ralph(&[&RUN[..], &["--plan-only"]].concat()).expect(0);
    env
}

fn submit(env: &TestEnvironment, workers: &str) {
    env.ralph(&["bench", "submit", "job", "--workers", workers]).expect(0).says("slurm job ");
}

/// The states of all workers that were submitted, in the order of their names.
pub(super) fn states(env: &TestEnvironment) -> Vec<String> {
    let now = status(env, "job");
    let submissions = now["cluster"].as_array().unwrap();
    let states = submissions.iter().flat_map(|found| found["states"].as_array().unwrap());
    let mut found: Vec<(&str, &str)> = states
        .map(|state| (state["worker"].as_str().unwrap(), state["state"].as_str().unwrap()))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, state)| state.to_owned()).collect()
}

/// What each trial of a job is worth in the end, and what it cost.
fn results(env: &TestEnvironment, job: &str) -> BTreeMap<String, String> {
    let (attempts, _) = report(env, job);
    let ended = attempts.iter().filter(|attempt| attempt.get("fault").is_none());
    let result = |attempt: &Value| {
        let key = format!("{} {} {}", attempt["agent"], attempt["task"], attempt["trial"]);
        let parts = [&attempt["rewards"], &attempt["iterations"], &attempt["completed"]];
        (key, parts.map(Value::to_string).join(" "))
    };
    ended.map(result).collect()
}

/// The job's results are those of the same job on this machine alone.
pub(super) fn check_equal_to_one_machine(env: &TestEnvironment) {
    check_whole(env);
    let mut alone = RUN;
    alone[9] = "alone";
    env.ralph(&alone).expect(0);
    assert_eq!(results(env, "job"), results(env, "alone"));
}

#[test]
fn workers_of_a_cluster_share_a_job_and_need_its_controller_no_more() {
    let env = planned_job("\"--exclusive\"");
    let mut slurm = Slurm::start(&env);
    submit(&env, "3");
    eventually("an agent on each processor", || lines(&env, "shared/second") == 2 * NODES);
    assert_eq!(states(&env), ["RUNNING"; NODES]);
    let now = status(&env, "job");
    assert_eq!(now["workers"].as_array().unwrap().len(), NODES, "{now}");
    env.ralph(&["bench", "status", "job"]).expect(0).says(": 3 running\n");
    // One on a node whose daemon has crashed goes on, and Slurm starts no second copy of it.
    let node = slurm.nodes.remove(0);
    kill(node);
    // As at the crash of a cluster's controller: those who work go on.
    slurm.controller.kill().unwrap();
    slurm.controller.wait().unwrap();
    let unknown = status(&env, "job");
    assert_eq!(unknown["cluster"][0]["states"], Value::Null, "{unknown}");
    env.ralph(&["bench", "status", "job"]).expect(0).says("state unknown").says("squeue");
    fs::remove_file(env.path("shared/hold")).unwrap();
    eventually("the end of the job", || status(&env, "job")["is_running"] == false);
    check_equal_to_one_machine(&env);
    env.ralph(&["bench", "submit", "job", "--workers", "1"]).expect(64).says("nothing is left");
    // The controller is told of the end of each, and only then nothing of them is left.
    slurm.controller = start(&env, &slurm.folder, "slurmctld", &["-D"]);
    slurm.nodes.push(start(&env, &slurm.folder, "slurmd", &["-D", "-N", "node0"]));
    eventually("the end of all that it started", || states(&env).is_empty());
    env.ralph(&["bench", "cancel", "job"]).expect(0).says("no worker that was submitted is left");
    drop(slurm);
    eventually("the end of its services", || of_run(&env.root()).is_empty());
}

#[test]
fn workers_that_are_cancelled_leave_their_trials_to_others() {
    let env = planned_job("");
    let cancel = || env.ralph(&["bench", "cancel", "job"]);
    cancel().expect(64).says("no workers of").says("bench submit");
    let slurm = Slurm::start(&env);
    let too_many = ["bench", "submit", "job", "--workers", "9"];
    env.ralph(&too_many).expect(64).says("MaxArraySize is 8").says("several times");
    let shown = env.ralph(&["bench", "submit", "job", "--workers", "2", "--dry-run"]).expect(0);
    shown.says("sbatch --parsable ").says("--array=0-1 ").says("bench work ");
    assert!(slurm.run("squeue", &["-h"]).is_empty());
    // Three are all that there is room for at once, and those of two submissions work together.
    submit(&env, "1");
    submit(&env, "7");
    eventually("an agent on each processor", || lines(&env, "shared/second") == 2 * NODES);
    let mut counted = states(&env);
    counted.sort_unstable();
    assert_eq!(counted.iter().filter(|state| *state == "RUNNING").count(), 2 * NODES);
    assert_eq!(counted.iter().filter(|state| *state == "PENDING").count(), 2, "{counted:?}");
    cancel().expect(0).says(": 1 worker cancelled").says(": 7 workers cancelled");
    assert!(states(&env).is_empty());
    let now = status(&env, "job");
    assert_eq!((&now["is_running"], &now["judged"]), (&false.into(), &0.into()), "{now}");
    fs::remove_file(env.path("shared/hold")).unwrap();
    submit(&env, "3");
    eventually("the end of the job", || status(&env, "job")["ended"] == 12);
    eventually("the end of its workers", || states(&env).is_empty());
    check_equal_to_one_machine(&env);
    drop(slurm);
    eventually("the end of its services", || of_run(&env.root()).is_empty());
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_submitted() {
    let env = job();
    let submit = || env.ralph(&["bench", "submit", "job", "--workers", "2"]);
    submit().expect(64).says("has no job").says("bench run --plan-only --out ");
    env.ralph(&[&RUN[..], &["--plan-only"]].concat()).expect(0);
    submit().expect(78).says("has no [bench.cluster]").says("kind = \"slurm\"");
    append(&env, "[bench.cluster]\nkind = \"slurm\"\nprogram = \"ralph-orchestrator\"\n");
    submit().expect(78).says("bench.cluster.program").says("absolute path");
    // Slurm's own words are passed on, here those about a controller that is not there.
    let text = env.read("ralph.toml").replace("program = \"ralph-orchestrator\"\n", "");
    env.raw_config(&text);
    submit().expect(69).says("`sbatch` failed");
    assert_eq!(status(&env, "job")["cluster"], serde_json::json!([]));
}
