//! Kubernetes, from 1.29 on: an Indexed Job, of which each index is one worker, and the claim of the volume that they share.

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::Submission;
use ralph_orchestrator_config::BenchPod;
use serde_json::{Value, json};

use super::{EngineRequest, WorkerOrder, WorkerState};

/// How often the worker of an index is started anew after a failure.
const RESTARTS: u32 = 3;
/// Seconds that a pod has to end: trials have ten.
const GRACE_SECONDS: u32 = 30;
/// The name of this program, as images have it in their search path.
const PROGRAM: &str = "ralph-orchestrator";
/// What a worker ends with that another start would not change.
const LASTING: [u8; 4] = [exit::LIMIT, exit::USAGE, exit::DAMAGED, exit::CONFIG];
/// What a column without a value has.
const NO_VALUE: &str = "<none>";
const CONTAINER: &str = "worker";
const VOLUME: &str = "shared";

/// Returns the call that asks for workers.
pub(super) fn make_request(order: &WorkerOrder<'_>) -> Result<EngineRequest, CommandError> {
    let pod = order.cluster.pod.as_ref();
    let pod = pod.ok_or_else(|| CommandError::config("[bench.cluster] has no `pod`"))?;
    verify_paths(order, pod)?;
    let mut words = vec!["kubectl".to_owned()];
    words.extend(order.cluster.kubectl_args.iter().cloned());
    words.extend(["apply", "-f", "-"].map(str::to_owned));
    let mut input = serde_json::to_string_pretty(&make_manifest(order, pod)).unwrap_or_default();
    input.push('\n');
    Ok(EngineRequest { words, input })
}

/// Refuses what pods would not find.
fn verify_paths(order: &WorkerOrder<'_>, pod: &BenchPod) -> Result<(), CommandError> {
    let tasks = order.plan.tasks.iter().map(|task| task.path.as_path());
    let named = order.plan.configuration.as_deref();
    let mut paths = [order.job].into_iter().chain(named).chain(tasks);
    let Some(outside) = paths.find(|path| !path.starts_with(&pod.mount)) else { return Ok(()) };
    let message = format!(
        "pods see only what is below bench.cluster.pod.mount, which is {}, and {} is not",
        pod.mount.display(),
        outside.display()
    );
    let hint =
        "mount the volume at the same path here, and plan the job with all of its files below it";
    Err(CommandError::config(message).hinted(hint))
}

fn make_manifest(order: &WorkerOrder<'_>, pod: &BenchPod) -> Value {
    let claim = pod.storage.as_ref().map(|storage| make_claim(pod, storage));
    let items: Vec<Value> = claim.into_iter().chain([make_job(order, pod)]).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

fn make_claim(pod: &BenchPod, storage: &str) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteMany"],
        "resources": { "requests": { "storage": storage } },
    });
    if let (Some(class), Some(spec)) = (&pod.storage_class, spec.as_object_mut()) {
        spec.insert("storageClassName".to_owned(), json!(class));
    }
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": pod.claim },
        "spec": spec,
    })
}

fn make_job(order: &WorkerOrder<'_>, pod: &BenchPod) -> Value {
    let labels = json!({
        "app.kubernetes.io/name": PROGRAM,
        "ralph-orchestrator/bench-job": order.plan.id,
    });
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": order.name, "labels": labels },
        "spec": {
            "completionMode": "Indexed",
            "completions": order.workers,
            "parallelism": order.workers,
            // A worker that is lost costs no other one.
            "backoffLimitPerIndex": RESTARTS,
            "maxFailedIndexes": order.workers,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailIndex",
                        "onExitCodes": {
                            "containerName": CONTAINER, "operator": "In", "values": LASTING,
                        },
                    },
                    {
                        "action": "Ignore",
                        "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }],
                    },
                ],
            },
            "template": { "metadata": { "labels": labels }, "spec": make_pod(order, pod) },
        },
    })
}

fn make_pod(order: &WorkerOrder<'_>, pod: &BenchPod) -> Value {
    let program = order.cluster.program.clone().unwrap_or_else(|| PathBuf::from(PROGRAM));
    let cpus = pod.cpus.to_string();
    let mut container = json!({
        "name": CONTAINER,
        "image": pod.image,
        "command": [argument(&program), "bench", "work", argument(order.job), "-n", cpus],
        "workingDir": text(&pod.mount),
        "resources": { "requests": { "cpu": cpus } },
        "volumeMounts": [{ "name": VOLUME, "mountPath": text(&pod.mount) }],
    });
    if let (Some(secret), Some(container)) = (&pod.secret, container.as_object_mut()) {
        container.insert("envFrom".to_owned(), json!([{ "secretRef": { "name": secret } }]));
    }
    json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "containers": [container],
        "volumes": [{ "name": VOLUME, "persistentVolumeClaim": { "claimName": pod.claim } }],
    })
}

/// Kubernetes replaces `$(NAME)` in arguments by a variable, and `$$(NAME)` by that text.
fn argument(path: &Path) -> String {
    text(path).replace("$(", "$$(")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn call(submission: &Submission, args: &[&str]) -> Vec<String> {
    let mut words = vec!["kubectl".to_owned()];
    words.extend(submission.options.iter().cloned());
    words.extend(args.iter().map(|arg| (*arg).to_owned()));
    words
}

/// Returns the command that lists workers, one a line.
pub(super) fn list_workers(submission: &Submission) -> Vec<String> {
    let selector = format!("--selector=job-name={}", submission.name);
    let columns = "--output=custom-columns=NAME:.metadata.name,STATE:.status.phase,NODE:.spec.nodeName,\
                   REASON:.status.reason";
    call(submission, &["get", "pods", &selector, "--no-headers", columns])
}

/// Reads a line of that command; none of one that is of something else.
pub(super) fn read_worker(line: &str) -> Option<WorkerState> {
    let mut fields = line.split_whitespace().map(str::to_owned);
    let (name, state) = (fields.next()?, fields.next()?);
    let mut value = || fields.next().filter(|value| value != NO_VALUE);
    let (node, reason) = (value(), value());
    let has_ended = ["Succeeded", "Failed"].contains(&state.as_str());
    Some(WorkerState { name, state, node, reason, has_ended })
}

/// Returns the command that ends workers, and waits for them.
pub(super) fn delete_job(submission: &Submission) -> Vec<String> {
    let name = &submission.name;
    call(submission, &["delete", "job", name, "--cascade=foreground", "--ignore-not-found"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubectl_prints_is_read() {
        let running = read_worker("bench-a-0-x7   Running     node1    <none>").unwrap();
        assert_eq!((running.name.as_str(), running.state.as_str()), ("bench-a-0-x7", "Running"));
        assert_eq!((running.node.as_deref(), running.reason), (Some("node1"), None));
        assert!(!running.has_ended);
        let failed = read_worker("bench-a-1-y8 Failed <none> Evicted").unwrap();
        assert_eq!((failed.node, failed.reason.as_deref()), (None, Some("Evicted")));
        assert!(failed.has_ended);
        assert_eq!(read_worker(""), None);
    }
}
