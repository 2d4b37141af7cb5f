//! Workers of a job that a real Slurm starts: a controller and three nodes on loopback, which end with the test.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::environment::{TestEnvironment, eventually, of_run, tested_program};

use super::crash::{RUN, check_whole, job, lines};
use super::status;

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
    others: Vec<Child>,
}

impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        for service in self.others.iter_mut().chain([&mut self.controller]) {
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
        let mut others = vec![start_munge(env, &folder)];
        let controller = start(env, &folder, "slurmctld", &["-D"]);
        for number in 0..NODES {
            others.push(start(env, &folder, "slurmd", &["-D", "-N", &format!("node{number}")]));
        }
        let slurm = Self { env, folder, controller, others };
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

#[test]
fn workers_of_a_cluster_share_a_job_and_need_its_controller_no_more() {
    let env = job();
    env.write("shared/hold", "");
    env.ralph(&[&RUN[..], &["--plan-only"]].concat()).expect(0);
    let mut slurm = Slurm::start(&env);
    let output = format!("--output={}/%a.out", slurm.folder.display());
    let work = format!("--wrap=exec '{}' bench work job -n 1", tested_program().display());
    let id = slurm.run("sbatch", &["--parsable", "--array=0-2", "--no-requeue", &output, &work]);
    eventually("an agent on each node", || lines(&env, "shared/second") == NODES);
    let living = || status(&env, "job")["workers"].as_array().unwrap().len();
    assert_eq!(living(), NODES);
    slurm.run("scancel", &[&format!("{id}_0")]);
    eventually("the end of the one that was cancelled", || living() == NODES - 1);
    // As at the crash of a cluster's controller: those who work go on.
    slurm.controller.kill().unwrap();
    slurm.controller.wait().unwrap();
    fs::remove_file(env.path("shared/hold")).unwrap();
    eventually("the end of the job", || status(&env, "job")["is_running"] == false);
    check_whole(&env);
    // It is told of the end of each, and only then nothing of them is left.
    slurm.controller = start(&env, &slurm.folder, "slurmctld", &["-D"]);
    eventually("the end of all that it started", || slurm.run("squeue", &["-h"]).is_empty());
    drop(slurm);
    eventually("the end of its services", || of_run(&env.root()).is_empty());
}
