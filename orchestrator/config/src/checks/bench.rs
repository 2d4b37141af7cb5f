//! Checks of `[bench]`.

use std::path::Path;

use super::{is_name, make_absolute};
use crate::diagnostics::Diagnostics;
use crate::model::{Bench, BenchCluster, ClusterKind};

/// Checks the table, and makes its paths absolute.
pub(super) fn check(bench: &mut Bench, dir: &Path, diagnostics: &mut Diagnostics<'_>) {
    for (key, count) in [("trials", bench.trials), ("concurrency", bench.concurrency)] {
        if count == 0 {
            diagnostics.add(&["bench", key], "expected a whole number of 1 or more, found 0");
        }
    }
    for (name, count) in &bench.agent_concurrency {
        if *count == 0 {
            let message = "expected a whole number of 1 or more, found 0";
            diagnostics.add(&["bench", "agent_concurrency", name], message);
        }
    }
    let factor = bench.agent_time_factor;
    if !(factor.is_finite() && factor > 0.0) {
        let message = format!("expected a factor greater than 0, such as 2.0; found {factor}");
        diagnostics.add(&["bench", "agent_time_factor"], message);
    }
    for name in bench.variant.keys().filter(|name| !is_name(name)) {
        diagnostics.add(&["bench", "variant", name], "a variant needs a name of one line");
    }
    for (index, name) in bench.agents.iter().enumerate() {
        let path = ["bench", "agents", &index.to_string()];
        if !is_name(name) {
            diagnostics.add(&path, format!("expected the name of an agent, found {name:?}"));
        } else if bench.agents.iter().take(index).any(|known| known == name) {
            diagnostics.add(&path, format!("the agent {name:?} is named twice"));
        }
    }
    for (index, path) in bench.tasks.iter_mut().enumerate() {
        let key = ["bench", "tasks", &index.to_string()];
        *path = make_absolute(path, dir, &key, diagnostics);
    }
    bench.out = make_absolute(&bench.out, dir, &["bench", "out"], diagnostics);
    if let Some(cluster) = &bench.cluster {
        check_cluster(cluster, diagnostics);
    }
}

/// Checks that a cluster says what its engine needs. It may say what another one needs, too.
fn check_cluster(cluster: &BenchCluster, diagnostics: &mut Diagnostics<'_>) {
    let path = ["bench", "cluster"];
    if cluster.program.as_ref().is_some_and(|program| program.as_os_str().is_empty()) {
        let message = "expected the path of this program, found an empty text";
        diagnostics.add(&["bench", "cluster", "program"], message);
    }
    match cluster.kind {
        None if diagnostics.is_broken(&["bench", "cluster", "kind"]) => {}
        None => diagnostics.add(&path, "`kind` is missing, such as `kind = \"slurm\"`"),
        Some(ClusterKind::Slurm) => {}
        Some(ClusterKind::Kubernetes) => check_pod(cluster, diagnostics),
    }
}

/// Checks that pods can be made.
fn check_pod(cluster: &BenchCluster, diagnostics: &mut Diagnostics<'_>) {
    let Some(pod) = &cluster.pod else {
        let message = "`pod` is missing, such as `pod = { image = \"bench:1\", mount = \"/shared\", claim = \"bench\" }`";
        return diagnostics.add(&["bench", "cluster"], message);
    };
    let of = |key: &'static str| ["bench", "cluster", "pod", key];
    for (key, text) in [("image", &pod.image), ("claim", &pod.claim)] {
        if text.is_empty() {
            diagnostics.add(&["bench", "cluster", "pod"], format!("`{key}` is missing"));
        }
    }
    if !pod.mount.is_absolute() {
        let message =
            "expected the path from the root at which pods see the volume, such as \"/shared\"";
        diagnostics.add(&of("mount"), message);
    }
    if pod.cpus == 0 {
        diagnostics.add(&of("cpus"), "expected a whole number of 1 or more, found 0");
    }
}
