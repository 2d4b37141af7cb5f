//! What a task asks of its environment, its agent and its verifier.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long a verifier runs if a task does not say: 600 seconds.
pub const DEFAULT_VERIFIER_TIMEOUT: Duration = Duration::from_secs(600);
/// How long building an environment takes if a task does not say: 600 seconds.
pub const DEFAULT_BUILD_TIMEOUT: Duration = Duration::from_secs(600);
/// The service that the agent works in.
pub const MAIN_SERVICE: &str = "main";

/// Which hosts may be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkPolicy {
    /// All.
    #[default]
    Public,
    /// None.
    NoNetwork,
    /// These names, addresses and ranges, in lower case.
    Allowlist(Vec<String>),
}

/// The user that a process runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// By name.
    Name(String),
    /// By number.
    Id(u64),
}

impl User {
    /// Whether it is the superuser.
    #[must_use]
    pub fn is_root(&self) -> bool {
        match self {
            Self::Name(name) => matches!(name.as_str(), "root" | "0"),
            Self::Id(id) => *id == 0,
        }
    }
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Id(id) => write!(f, "{id}"),
        }
    }
}

/// The operating system of an environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperatingSystem {
    /// Linux.
    #[default]
    Linux,
    /// Windows.
    Windows,
}

/// A command that says whether an environment is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healthcheck {
    /// The shell command; its exit status 0 means ready.
    pub command: String,
    /// Time between two checks. Default: 5 s.
    pub interval: Duration,
    /// Longest time of one check. Default: 30 s.
    pub timeout: Duration,
    /// Time after the start during which failures do not count. Default: 0 s.
    pub start_period: Duration,
    /// Time between two checks during that time. Default: 5 s.
    pub start_interval: Duration,
    /// Consecutive failures that end the attempt. Default: 3.
    pub retries: u64,
}

/// How an MCP server is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum McpTransport {
    /// A process, by its standard input and output.
    Stdio,
    /// HTTP with server-sent events.
    #[default]
    Sse,
    /// Streamable HTTP.
    StreamableHttp,
}

/// An MCP server for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// Where it is reached, if by HTTP.
    pub url: Option<String>,
    /// What starts it, if by its standard input and output.
    pub command: Option<String>,
    /// Arguments of that command.
    pub args: Vec<String>,
    /// HTTP headers; values may have `${NAME}` in them.
    pub headers: BTreeMap<String, String>,
}

/// A slice of TPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tpu {
    /// Its type, such as "v6e".
    pub kind: String,
    /// Its dimensions, such as "2x4".
    pub topology: String,
}

/// What `[environment]`, or the verifier's own environment, says.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvironmentSettings {
    /// Longest time of building it.
    pub build_timeout: Duration,
    /// A container image that is made already.
    pub docker_image: Option<String>,
    /// The operating system.
    pub os: OperatingSystem,
    /// Processors; none for what there is.
    pub cpus: Option<f64>,
    /// Memory in MiB; none for what there is.
    pub memory_mb: Option<u64>,
    /// Disk space in MiB; none for what there is.
    pub storage_mb: Option<u64>,
    /// GPUs.
    pub gpus: u64,
    /// GPU types of which any will do; empty for all.
    pub gpu_types: Vec<String>,
    /// TPUs.
    pub tpu: Option<Tpu>,
    /// The folder that commands run in, if it is not that of the Dockerfile.
    pub workdir: Option<String>,
    /// Environment variables; values may be `${NAME}` or `${NAME:-default}`.
    pub env: BTreeMap<String, String>,
    /// A folder of the environment with skills for the agent.
    pub skills_dir: Option<String>,
    /// Which hosts may be reached.
    pub network: NetworkPolicy,
    /// MCP servers for the agent.
    pub mcp_servers: Vec<McpServer>,
    /// What says that the environment is ready.
    pub healthcheck: Option<Healthcheck>,
}

impl Default for EnvironmentSettings {
    fn default() -> Self {
        Self {
            build_timeout: DEFAULT_BUILD_TIMEOUT,
            docker_image: None,
            os: OperatingSystem::default(),
            cpus: None,
            memory_mb: None,
            storage_mb: None,
            gpus: 0,
            gpu_types: Vec::new(),
            tpu: None,
            workdir: None,
            env: BTreeMap::new(),
            skills_dir: None,
            network: NetworkPolicy::default(),
            mcp_servers: Vec::new(),
            healthcheck: None,
        }
    }
}

/// What a task asks for its agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentSettings {
    /// Longest time of the agent's work; none for no limit of the task.
    pub timeout: Option<Duration>,
    /// The user it runs as; none for the environment's.
    pub user: Option<User>,
    /// Which hosts it may reach; none for the environment's policy.
    pub network: Option<NetworkPolicy>,
}

/// A command that runs in the agent's environment after the agent, before artifacts are collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectCommand {
    /// The shell command.
    pub command: String,
    /// The service that it runs in.
    pub service: String,
    /// Its longest time. Default: 60 s.
    pub timeout: Duration,
    /// The user it runs as; none for the service's.
    pub user: Option<User>,
}

/// A file or folder of the environment that is kept, and given to a separate verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its path in the environment.
    pub source: String,
    /// Its relative path among the trial's artifacts; none for the source's.
    pub destination: Option<String>,
    /// Patterns of what is left out, as those of `tar --exclude`.
    pub exclude: Vec<String>,
    /// The service it is taken from; none for the agent's.
    pub service: Option<String>,
}

/// What the rewards of a step have to be for the next step to begin.
#[derive(Clone, Debug, PartialEq)]
pub struct RewardGate(pub BTreeMap<String, f64>);

/// How the rewards of steps become that of the trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RewardStrategy {
    /// The mean of each key over the steps that have rewards; a missing key counts as 0.
    #[default]
    Mean,
    /// The rewards of the last step.
    Final,
}
