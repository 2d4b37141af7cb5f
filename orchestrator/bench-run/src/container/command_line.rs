//! The command lines of Docker and Podman, which have the same verbs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use ralph_orchestrator_supervisor::{Mount, MountAccess};
use serde_json::Value;

/// The label with the id of the job that a container belongs to.
pub(super) const JOB_LABEL: &str = "ralph-orchestrator.job";
/// The label with the attempt that a container belongs to.
const ATTEMPT_LABEL: &str = "ralph-orchestrator.attempt";
/// What the first process of a container prints when it runs.
pub(super) const READY: &str = "ready";
/// The first process of a container: it ends with its standard input, which the client holds open. So the container
/// ends with the client, whatever ends that.
const FIRST_PROCESS: &str = "echo ready; exec cat >/dev/null";

/// A container to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct CreateOrder {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) job: String,
    pub(super) attempt: String,
    pub(super) workdir: String,
    pub(super) mounts: Vec<Mount>,
    pub(super) has_network: bool,
    pub(super) cpus: Option<f64>,
    pub(super) memory_mb: Option<u64>,
}

/// A process to be started in a container.
#[derive(Clone, Debug)]
pub(crate) struct ExecOrder<'a> {
    pub(super) container: &'a str,
    pub(super) workdir: &'a Path,
    /// Names of variables that have their values from the client's environment, or `NAME=VALUE`.
    pub(super) env: &'a [String],
    pub(super) program: &'a Path,
    pub(super) args: &'a [OsString],
}

/// Something of the machine that an engine can put a ceiling on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    Cpus,
    Memory,
}

/// What an engine says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineInfo {
    pub version: String,
    /// What it can put a ceiling on.
    pub enforces: BTreeSet<Resource>,
    /// Whether the root of its containers is that of this machine.
    pub is_rootful: bool,
}

impl EngineInfo {
    /// Returns to whom files have to be given that processes of its containers make; none if they are ours.
    pub(super) fn find_owner(&self) -> Option<(u32, u32)> {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        (self.is_rootful && !user.is_root()).then(|| (user.as_raw(), group.as_raw()))
    }
}

/// The command line of an engine. What is the same for all of them is here once.
pub(crate) trait EngineCommands: std::fmt::Debug + Send + Sync {
    /// Returns the name of the program.
    fn program(&self) -> &'static str;

    /// Returns what to do where there is no such program.
    fn installation(&self) -> &'static str;

    /// Reads what the engine says of itself, as [`info`](Self::info) prints it.
    ///
    /// # Errors
    /// Says what is missing.
    fn read_info(&self, info: &Value) -> Result<EngineInfo, String>;

    fn info(&self) -> Vec<OsString> {
        words(&["info", "--format", "{{json .}}"])
    }

    fn inspect_image(&self, image: &str) -> Vec<OsString> {
        words(&["image", "inspect", image])
    }

    fn pull(&self, image: &str) -> Vec<OsString> {
        words(&["pull", image])
    }

    fn build(&self, tag: &str, dockerfile: &Path, context: &Path) -> Vec<OsString> {
        let mut all = words(&["build", "--tag", tag, "--file"]);
        all.extend([dockerfile.into(), context.into()]);
        all
    }

    fn create(&self, order: &CreateOrder) -> Vec<OsString> {
        let mut all = words(&["create", "--interactive", "--name", &order.name]);
        let mut add = |more: &[&str]| all.extend(words(more));
        add(&["--label", &format!("{JOB_LABEL}={}", order.job)]);
        add(&["--label", &format!("{ATTEMPT_LABEL}={}", order.attempt)]);
        // Everything is root's, as with the other isolations; entry points of images start services.
        add(&["--user", "0:0", "--entrypoint", "sh"]);
        if !order.workdir.is_empty() {
            add(&["--workdir", &order.workdir]);
        }
        if !order.has_network {
            add(&["--network", "none"]);
        }
        if let Some(cpus) = order.cpus {
            add(&["--cpus", &cpus.to_string()]);
        }
        if let Some(memory) = order.memory_mb {
            add(&["--memory", &format!("{memory}m")]);
        }
        // Labels of SELinux would keep it from files of this machine.
        add(&["--security-opt", "label=disable"]);
        for mount in &order.mounts {
            all.push("--mount".into());
            all.push(mount_option(mount));
        }
        all.extend(words(&[&order.image, "-c", FIRST_PROCESS]));
        all
    }

    fn start(&self, container: &str) -> Vec<OsString> {
        words(&["start", "--attach", "--interactive", container])
    }

    fn exec(&self, order: &ExecOrder<'_>) -> Vec<OsString> {
        let mut all = words(&["exec", "--interactive", "--workdir"]);
        all.push(order.workdir.into());
        for variable in order.env {
            all.extend(words(&["--env", variable]));
        }
        all.extend([order.container.into(), order.program.into()]);
        all.extend(order.args.iter().cloned());
        all
    }

    /// Copies what is in a folder of a container.
    fn copy_out(&self, container: &str, path: &str, into: &Path) -> Vec<OsString> {
        let mut all = words(&["cp", &format!("{container}:{path}")]);
        all.push(into.into());
        all
    }

    fn kill(&self, container: &str) -> Vec<OsString> {
        words(&["kill", container])
    }

    fn remove(&self, container: &str) -> Vec<OsString> {
        words(&["rm", "--force", "--volumes", container])
    }

    /// Lists the containers of a job, a name on each line.
    fn list(&self, job: &str) -> Vec<OsString> {
        let filter = format!("label={JOB_LABEL}={job}");
        words(&["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"])
    }
}

/// Docker.
#[derive(Debug)]
pub(crate) struct Docker;

impl EngineCommands for Docker {
    fn program(&self) -> &'static str {
        "docker"
    }

    fn installation(&self) -> &'static str {
        "install Docker Engine (https://docs.docker.com/engine/install/), or use `--isolation podman` or `namespace`"
    }

    fn read_info(&self, info: &Value) -> Result<EngineInfo, String> {
        let version = info.get("ServerVersion").and_then(Value::as_str).unwrap_or_default();
        if version.is_empty() {
            let errors = info.get("ServerErrors").map(Value::to_string).unwrap_or_default();
            return Err(format!("the daemon does not answer: {errors}"));
        }
        let has = |key: &str| info.get(key).and_then(Value::as_bool).unwrap_or(false);
        let found = [
            (Resource::Cpus, has("CpuCfsQuota") || has("CPUCfsQuota")),
            (Resource::Memory, has("MemoryLimit")),
        ];
        let options = info.get("SecurityOptions").map(Value::to_string).unwrap_or_default();
        let (version, enforces) = (version.to_owned(), supported(&found));
        Ok(EngineInfo { version, enforces, is_rootful: !options.contains("name=rootless") })
    }
}

/// Podman.
#[derive(Debug)]
pub(crate) struct Podman;

impl EngineCommands for Podman {
    fn program(&self) -> &'static str {
        "podman"
    }

    fn installation(&self) -> &'static str {
        "install the package podman, or use `--isolation docker` or `namespace`"
    }

    fn read_info(&self, info: &Value) -> Result<EngineInfo, String> {
        let version = info.pointer("/version/Version").and_then(Value::as_str);
        let version = version.ok_or("it does not say which version it has")?.to_owned();
        let controllers = info.pointer("/host/cgroupControllers").and_then(Value::as_array);
        let has = |name: &str| controllers.into_iter().flatten().any(|found| found == name);
        let found = [(Resource::Cpus, has("cpu")), (Resource::Memory, has("memory"))];
        // Who is not root has containers of his own, whose root is he.
        Ok(EngineInfo { version, enforces: supported(&found), is_rootful: false })
    }
}

fn supported(found: &[(Resource, bool)]) -> BTreeSet<Resource> {
    found.iter().filter(|(_, is_supported)| *is_supported).map(|(resource, _)| *resource).collect()
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Returns the value of `--mount`, which is a line of comma-separated values.
fn mount_option(mount: &Mount) -> OsString {
    let field = |name: &str, path: &Path| {
        let text = format!("{name}={}", path.display());
        if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    let mut option =
        format!("type=bind,{},{}", field("source", &mount.source), field("target", &mount.target));
    if mount.access == MountAccess::ReadOnly {
        option.push_str(",readonly");
    }
    option.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(words: &[OsString]) -> String {
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_container_has_what_was_ordered_and_nothing_else() {
        let order = CreateOrder {
            name: "n".to_owned(),
            image: "i".to_owned(),
            job: "j".to_owned(),
            attempt: "a/1".to_owned(),
            ..CreateOrder::default()
        };
        let least = text(&Podman.create(&order));
        assert_eq!(
            least,
            "create --interactive --name n --label ralph-orchestrator.job=j --label \
             ralph-orchestrator.attempt=a/1 --user 0:0 --entrypoint sh --network none --security-opt \
             label=disable i -c echo ready; exec cat >/dev/null"
        );
        let mount =
            |source: &str, access| Mount { source: source.into(), target: "/t".into(), access };
        let mounts =
            vec![mount("/a,\"b\"", MountAccess::Writable), mount("/c d", MountAccess::ReadOnly)];
        let (cpus, memory_mb, workdir) = (Some(1.5), Some(2048), "/app".to_owned());
        let most = CreateOrder { cpus, memory_mb, workdir, mounts, has_network: true, ..order };
        let most = text(&Docker.create(&most));
        assert!(!most.contains("--network"), "{most}");
        assert!(most.contains("--workdir /app --cpus 1.5 --memory 2048m "), "{most}");
        assert!(most.contains("--mount type=bind,\"source=/a,\"\"b\"\"\",target=/t "), "{most}");
        assert!(most.contains("--mount type=bind,source=/c d,target=/t,readonly i"), "{most}");
    }

    #[test]
    fn an_engine_that_does_not_answer_has_no_version() {
        let info = json!({ "ServerVersion": "", "ServerErrors": ["Cannot connect"] });
        assert!(Docker.read_info(&info).unwrap_err().contains("Cannot connect"));
        assert!(Podman.read_info(&json!({})).is_err());
        let info = json!({ "ServerVersion": "28.1", "MemoryLimit": true, "CpuCfsQuota": false });
        let info = Docker.read_info(&info).unwrap();
        assert_eq!((info.version.as_str(), info.enforces.len()), ("28.1", 1));
        let info =
            json!({ "version": { "Version": "4.3.1" }, "host": { "cgroupControllers": ["cpu"] } });
        let info = Podman.read_info(&info).unwrap();
        assert_eq!(info.enforces, BTreeSet::from([Resource::Cpus]));
        let info = json!({ "version": { "Version": "5" }, "host": { "cgroupControllers": null } });
        assert!(Podman.read_info(&info).unwrap().enforces.is_empty());
    }
}
