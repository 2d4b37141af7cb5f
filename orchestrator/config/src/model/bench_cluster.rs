//! `[bench.cluster]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::strict::{self, strict_enum};

/// The engine of a cluster, which starts workers for `bench submit` by its own program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BenchCluster {
    /// "slurm", by `sbatch`, or "kubernetes", by `kubectl`.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional")]
    #[schemars(with = "ClusterKind")]
    pub kind: Option<ClusterKind>,
    /// The path of this program on the nodes, or in the image: by default the path of the one that submits, or the name that
    /// the image finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub program: Option<PathBuf>,
    /// Slurm: further options of `sbatch`, after those that `bench submit` gives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub sbatch_args: Vec<String>,
    /// Kubernetes: options of every `kubectl`, such as its context and its namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub kubectl_args: Vec<String>,
    /// Kubernetes: what each pod is.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_table")]
    #[schemars(with = "BenchPod")]
    pub pod: Option<BenchPod>,
}

/// A pod with one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BenchPod {
    /// The image, which has this program and those of the agents.
    #[schemars(length(min = 1))]
    pub image: String,
    /// The folder at which each pod sees the volume. The folder of the job, its tasks and its configuration are below it, at the
    /// same paths as where `bench submit` is called.
    #[schemars(extend("minLength" = 1))]
    pub mount: PathBuf,
    /// The name of the PersistentVolumeClaim of that volume.
    #[schemars(length(min = 1))]
    pub claim: String,
    /// Make the claim if there is none, for a volume of this size that several nodes can write. Without it there has to
    /// be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub storage: Option<String>,
    /// The storage class of that volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub storage_class: Option<String>,
    /// A Secret whose keys are variables of the workers, such as those that agents authenticate with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub secret: Option<String>,
    /// Processors that a pod asks for, and trials that its worker performs at the same time.
    #[schemars(range(min = 1))]
    pub cpus: u32,
}

impl Default for BenchPod {
    fn default() -> Self {
        Self {
            image: String::new(),
            mount: PathBuf::new(),
            claim: String::new(),
            storage: None,
            storage_class: None,
            secret: None,
            cpus: 1,
        }
    }
}

strict_enum! {
    /// The engine of a cluster.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum ClusterKind {
        /// Slurm.
        Slurm = "slurm",
        /// Kubernetes.
        Kubernetes = "kubernetes",
    }
}
