//! The protocol of the control socket: a job, then orders of one byte each to the shim, and reports of one
//! JSON line each from it. When the tree is gone, another job may follow.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::file_fault::FileFault;
use crate::root::plan::RootPlan;
use crate::spec::{Grace, Spec, Stop};
use crate::step::StepSubject;
use crate::survivor::Survivor;
use crate::view::plan::ViewPlan;

/// A bit of the fork request, which carries the shim's control socket: a guard follows.
pub(crate) const GUARD: u8 = 1;
/// The largest number of descriptors of a fork request.
pub(crate) const MAX_FORK_FDS: usize = 2;

/// Begins a job, after which come a byte of bits, the length of the rest, and the rest. With it come
/// the standard streams and, by this bit, a ruleset.
pub(crate) const JOB: u8 = b'J';
pub(crate) const SANDBOX: u8 = 1;
/// The largest number of descriptors of a job.
pub(crate) const MAX_JOB_FDS: usize = 4;
/// The length of a job's header.
pub(crate) const JOB_HEAD: usize = 2 + size_of::<u64>();

/// Longer than anything the kernel would start, in bytes.
pub(crate) const MAX_JOB_BYTES: u64 = 64 * 1024 * 1024;

/// A job: what a shim starts, and how it ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) grace: Grace,
    pub(crate) cwd: OsString,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// What the tree sees instead of the host's file system.
    pub(crate) file_system: Option<FileSystem>,
}

/// What a process tree sees instead of the host's file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// A root of its own.
    Root(RootPlan),
    /// The host's, with other contents at some places.
    View(ViewPlan),
}

impl FileSystem {
    fn encode(&self) -> Vec<OsString> {
        let (kind, rest) = match self {
            Self::Root(plan) => ("root", plan.encode()),
            Self::View(plan) => ("view", plan.encode()),
        };
        std::iter::once(kind.into()).chain(rest).collect()
    }

    fn decode(words: &[OsString]) -> Option<Self> {
        let (kind, rest) = words.split_first()?;
        match kind.to_str()? {
            "root" => RootPlan::decode(rest).map(Self::Root),
            "view" => ViewPlan::decode(rest).map(Self::View),
            _ => None,
        }
    }
}

impl Job {
    /// What is sent for this process: words that each end with a NUL. `None` if a word holds one, which
    /// no program could be given, or if a variable's name is none.
    pub(crate) fn encode(spec: &Spec, file_system: Option<&FileSystem>) -> Option<Vec<u8>> {
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX).to_string();
        let Grace { interrupt, terminate, leftovers } = spec.grace;
        let mut body = Vec::new();
        for number in [interrupt, terminate, leftovers].map(millis) {
            word(&mut body, OsStr::new(&number))?;
        }
        word(&mut body, spec.cwd.as_os_str())?;
        word(&mut body, spec.program.as_os_str())?;
        word(&mut body, OsStr::new(&spec.args.len().to_string()))?;
        for arg in &spec.args {
            word(&mut body, arg)?;
        }
        let file_system = file_system.map(FileSystem::encode).unwrap_or_default();
        word(&mut body, OsStr::new(&file_system.len().to_string()))?;
        for part in &file_system {
            word(&mut body, part)?;
        }
        for (name, value) in &spec.env {
            if name.is_empty() || name.contains('=') {
                return None;
            }
            word(&mut body, OsStr::new(name))?;
            word(&mut body, OsStr::new(value))?;
        }
        Some(body)
    }

    /// What [`encode`](Self::encode) made; `None` if it is something else.
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let mut words = body.strip_suffix(b"\0")?.split(|byte| *byte == 0);
        let mut word = || words.next().map(|word| OsString::from_vec(word.to_vec()));
        let mut number = || word()?.to_str()?.parse::<u64>().ok();
        let mut millis = || number().map(Duration::from_millis);
        let grace = Grace { interrupt: millis()?, terminate: millis()?, leftovers: millis()? };
        let (cwd, program) = (word()?, word()?);
        let mut list = || {
            let count = word()?.to_str()?.parse::<usize>().ok()?;
            (0..count).map(|_| word()).collect::<Option<Vec<_>>>()
        };
        let (args, words_of_files) = (list()?, list()?);
        let file_system = if words_of_files.is_empty() {
            None
        } else {
            Some(FileSystem::decode(&words_of_files)?)
        };
        let mut env = Vec::new();
        while let Some(name) = word() {
            env.push((name, word()?));
        }
        Some(Self { grace, cwd, program, args, env, file_system })
    }
}

fn word(body: &mut Vec<u8>, word: &OsStr) -> Option<()> {
    if word.as_bytes().contains(&0) {
        return None;
    }
    body.extend_from_slice(word.as_bytes());
    body.push(0);
    Some(())
}

impl Stop {
    /// The order that asks the shim for it.
    pub(crate) fn order(self) -> u8 {
        match self {
            Self::Gracefully => b'I',
            Self::Terminate => b'T',
            Self::Kill => b'K',
        }
    }

    pub(crate) fn from_order(order: u8) -> Option<Self> {
        [Self::Gracefully, Self::Terminate, Self::Kill].into_iter().find(|s| s.order() == order)
    }
}

/// How the leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Exited(i32),
    Signaled { signal: i32, core: bool },
}

/// A report of the shim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The leader runs; and the pid of the shim itself.
    Started { pid: i32, shim: i32 },
    /// The leader could not be started.
    SpawnFailed { errno: i32 },
    /// The leader's program could not be executed, for a reason that only shows where the leader is.
    ProgramFailed { fault: FileFault, errno: i32 },
    /// Its file system could not be made.
    SetUpFailed { step: String, subject: StepSubject, errno: i32 },
    /// It could not be confined.
    SandboxFailed { reason: String },
    /// The shim itself cannot work here; nothing else follows.
    Broken { reason: String },
    /// The leader ended. `stopped`: the orchestrator had asked for it; `killed`: the shim had sent
    /// SIGKILL.
    LeaderEnded { status: Status, stopped: bool, killed: bool },
    /// No descendant is left, but those in `survived`, which SIGKILL did not end.
    Gone { left_behind: Vec<String>, survived: Vec<Survivor> },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;
    use crate::sandbox::Sandbox;
    use crate::view::View;

    fn spec() -> Spec {
        Spec {
            program: "/bin/true".into(),
            args: vec!["--".into(), "".into(), OsString::from_vec(b"a \xff\n".to_vec())],
            cwd: "/tmp".into(),
            env: [("A".to_owned(), String::new()), ("B".to_owned(), "x=y".to_owned())].into(),
            stdin: Vec::new(),
            grace: Grace {
                interrupt: Duration::from_millis(1),
                terminate: Duration::ZERO,
                leftovers: Duration::MAX,
            },
        }
    }

    #[test]
    fn a_job_survives_its_way() {
        let spec = spec();
        let job = Job::decode(&Job::encode(&spec, None).unwrap()).unwrap();
        assert_eq!((job.program, job.cwd), (spec.program.into(), spec.cwd.into()));
        assert_eq!(job.args, spec.args);
        let env = [("A", ""), ("B", "x=y")].map(|(n, v)| (OsString::from(n), OsString::from(v)));
        assert_eq!(job.env, env);
        assert_eq!(job.grace.interrupt, spec.grace.interrupt);
        assert_eq!(job.grace.leftovers, Duration::from_millis(u64::MAX));
        assert_eq!(job.file_system, None);
    }

    #[test]
    fn a_file_system_survives_its_way_beside_arguments_and_variables() {
        let root = RootPlan::new(&Root::default()).unwrap();
        let view = ViewPlan::new(&View::default(), Some(Sandbox::default())).unwrap();
        for file_system in [FileSystem::Root(root), FileSystem::View(view)] {
            let spec = spec();
            let job = Job::decode(&Job::encode(&spec, Some(&file_system)).unwrap()).unwrap();
            assert_eq!(job.file_system, Some(file_system));
            assert_eq!((job.args, job.env.len()), (spec.args, spec.env.len()));
        }
    }

    #[test]
    fn nothing_is_sent_that_no_program_can_be_given() {
        let with = |change: fn(&mut Spec)| {
            let mut spec = spec();
            change(&mut spec);
            Job::encode(&spec, None)
        };
        assert_eq!(with(|spec| spec.args.push("a\0b".into())), None);
        assert_eq!(with(|spec| spec.program = "\0".into()), None);
        assert_eq!(with(|spec| drop(spec.env.insert("A=B".into(), "c".into()))), None);
        assert_eq!(with(|spec| drop(spec.env.insert(String::new(), "c".into()))), None);
        assert_eq!(with(|spec| drop(spec.env.insert("C".into(), "\0".into()))), None);
    }

    #[test]
    fn what_is_no_job_is_refused() {
        let whole = Job::encode(&spec(), None).unwrap();
        assert!(Job::decode(&whole[..whole.len() - 1]).is_none(), "the last word does not end");
        assert!(Job::decode(b"").is_none());
        assert!(Job::decode(b"1\x002\x003\0/\0/bin/true\x0099\0").is_none(), "too few words");
        assert!(Job::decode(b"1\x002\x00x\0/\0/bin/true\x000\0").is_none(), "no number");
    }

    #[test]
    fn every_stop_has_an_order_of_its_own() {
        for stop in [Stop::Gracefully, Stop::Terminate, Stop::Kill] {
            assert_eq!(Stop::from_order(stop.order()), Some(stop));
        }
        assert_eq!(Stop::from_order(0), None);
    }
}
