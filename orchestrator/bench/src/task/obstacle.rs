//! What of a task cannot be honoured, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::dockerfile::{Dockerfile, FileAction, RunEffect, resolve};
use super::model::{EnvironmentSource, Step, Task, TaskForm, Verification};
use super::problem::TextLocation;
use super::provided::{Package, install_command};
use super::settings::{EnvironmentSettings, MAIN_SERVICE, NetworkPolicy, OperatingSystem, User};
use super::stage::{find_image_folder, find_mount_point, find_sources, find_workdir};
use super::template::resolve_env;

/// What keeps a trial apart from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IsolationKind {
    /// Nothing: only tasks of the own form, which name no absolute paths.
    None,
    /// Namespaces of the kernel, with the machine's own system read-only.
    Namespace,
    /// Containers of an engine.
    Container,
}

/// Why a task without an image is not for containers.
const NO_IMAGE: &str =
    "it names no image that a container could be made of: use the isolation `namespace`";

impl fmt::Display for IsolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Namespace => "namespace",
            Self::Container => "container",
        })
    }
}

/// Something that can be honoured or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Cutting off the network.
    CutNetwork,
    /// Letting some hosts through only.
    FilterNetwork,
    /// Running the RUN lines of a Dockerfile.
    Setup,
    /// Starting container images.
    Images,
    /// Starting several services.
    Compose,
    /// Running processes as other users.
    Users,
    /// Giving MCP servers to the agent.
    McpServers,
    /// Giving skills to the agent.
    Skills,
    /// Continuing a trajectory of another agent.
    PriorTrajectory,
}

/// What can be honoured.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// What keeps a trial apart.
    pub isolation: IsolationKind,
    /// What else there is.
    pub features: BTreeSet<Feature>,
    /// Packages that the machine provides.
    pub provided: Vec<Package>,
    /// GPUs.
    pub gpus: u64,
    /// The orchestrator's environment variables, for `${NAME}`.
    pub variables: BTreeMap<String, String>,
}

impl Capabilities {
    /// Returns what an isolation can do by itself: no packages, no GPUs, no variables.
    #[must_use]
    pub fn new(isolation: IsolationKind) -> Self {
        let features: &[Feature] = match isolation {
            IsolationKind::None => &[],
            IsolationKind::Namespace => &[Feature::CutNetwork],
            IsolationKind::Container => &[Feature::CutNetwork, Feature::Setup, Feature::Images],
        };
        Self {
            isolation,
            features: features.iter().copied().collect(),
            provided: Vec::new(),
            gpus: 0,
            variables: BTreeMap::new(),
        }
    }

    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

/// Why a task cannot be run as it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Where the task asks for it.
    pub location: TextLocation,
    /// What it asks for, and what a person can do.
    pub message: String,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

impl Task {
    /// Returns everything about the task that cannot be honoured with these capabilities. A task with an obstacle must
    /// not be run: its score would not be the task's.
    #[must_use]
    pub fn find_obstacles(&self, capabilities: &Capabilities) -> Vec<Obstacle> {
        let mut search = Search { task: self, capabilities, found: Vec::new() };
        if self.form == TaskForm::Own {
            if capabilities.isolation == IsolationKind::Container {
                search.add(NO_IMAGE);
            }
            return search.found;
        }
        if capabilities.isolation == IsolationKind::None {
            search.add(
                "its work directory, tests and logs have absolute paths such as /app and /tests, which are the \
                 machine's own under the isolation `none`: use the isolation `namespace`",
            );
        }
        search.check_environment(&self.environment, &self.source, false);
        search.check_variables(&self.environment.env);
        search.check_variables(&self.solution_env);
        for step in &self.steps {
            search.check_step(step);
            if capabilities.isolation == IsolationKind::Container {
                search.check_container(step);
            }
        }
        search.found.dedup();
        search.found
    }
}

struct Search<'a> {
    task: &'a Task,
    capabilities: &'a Capabilities,
    found: Vec<Obstacle>,
}

impl Search<'_> {
    /// Adds an obstacle of the task's own file.
    fn add(&mut self, message: impl Into<String>) {
        let file = match self.task.form {
            TaskForm::Harbor => "task.toml",
            TaskForm::TerminalBench => "task.yaml",
            TaskForm::Exercism => ".meta/config.json",
            TaskForm::Own => "ralph.toml",
        };
        self.add_at(TextLocation::from_file(&self.task.folder.join(file)), message);
    }

    fn add_at(&mut self, location: TextLocation, message: impl Into<String>) {
        self.found.push(Obstacle { location, message: message.into() });
    }

    fn add_unless(&mut self, feature: Feature, is_asked: bool, message: &str) {
        if is_asked && !self.capabilities.has(feature) {
            self.add(message);
        }
    }

    fn check_environment(
        &mut self,
        settings: &EnvironmentSettings,
        source: &EnvironmentSource,
        is_verifier: bool,
    ) {
        if settings.os == OperatingSystem::Windows {
            self.add("its environment is Windows, and only Linux can be offered");
        }
        if settings.tpu.is_some() {
            self.add("it needs a TPU, and none can be offered");
        }
        if settings.gpus > self.capabilities.gpus {
            self.add(format!(
                "it needs {} GPUs, and {} can be offered",
                settings.gpus, self.capabilities.gpus
            ));
        }
        self.check_network(&settings.network);
        self.add_unless(
            Feature::McpServers,
            !settings.mcp_servers.is_empty(),
            "it gives MCP servers to the agent (`environment.mcp_servers`), which this agent is not given",
        );
        self.add_unless(
            Feature::Skills,
            settings.skills_dir.is_some(),
            "it gives skills to the agent (`environment.skills_dir`), which this agent is not given",
        );
        self.check_source(settings, source, is_verifier);
    }

    fn check_source(
        &mut self,
        settings: &EnvironmentSettings,
        source: &EnvironmentSource,
        is_verifier: bool,
    ) {
        match source {
            EnvironmentSource::Image(image) if !self.capabilities.has(Feature::Images) => self.add(format!(
                "it runs in the container image {image} and brings no environment/Dockerfile, and images cannot be started here"
            )),
            EnvironmentSource::Files(_) if self.capabilities.isolation == IsolationKind::Container => self.add(NO_IMAGE),
            EnvironmentSource::Compose(file) if !self.capabilities.has(Feature::Compose) => self.add_at(
                TextLocation::from_file(file),
                "it runs in several services, which are not started here: only tasks with one Dockerfile can be run",
            ),
            EnvironmentSource::Nothing(folder) => self.add_at(
                TextLocation::from_file(folder),
                "there is nothing to make the environment from: write a Dockerfile with FROM, WORKDIR and COPY there",
            ),
            EnvironmentSource::Dockerfile(dockerfile)
                if self.capabilities.isolation != IsolationKind::Container =>
            {
                self.check_dockerfile(dockerfile);
                let at = TextLocation::from_file(&dockerfile.path);
                match (find_workdir(settings, source), &settings.workdir) {
                    (None, _) => self.add_at(
                        at,
                        "its work directory is not known: add a WORKDIR line, or `workdir` to [environment]",
                    ),
                    (Some(path), None) => {
                        if let Err(reason) = find_mount_point(&path, is_verifier) {
                            self.add_at(at, format!("the work directory {reason}"));
                        }
                    }
                    (Some(_), Some(_)) => {}
                }
            }
            _ => {}
        }
        let workdir = settings.workdir.as_deref();
        if self.capabilities.isolation == IsolationKind::Namespace
            && let Some(Err(reason)) = workdir.map(|path| find_mount_point(path, is_verifier))
        {
            self.add(format!("`environment.workdir` {reason}"));
        }
    }

    fn check_dockerfile(&mut self, dockerfile: &Dockerfile) {
        let at = |line| TextLocation::from_line(&dockerfile.path, line);
        for (line, reason) in &dockerfile.unsupported {
            self.add_at(at(*line), reason.clone());
        }
        for action in &dockerfile.actions {
            match action {
                FileAction::Folder { path } => {
                    if let Err(reason) = find_image_folder(path) {
                        self.add_at(
                            TextLocation::from_file(&dockerfile.path),
                            format!("the folder {reason}"),
                        );
                    }
                }
                FileAction::Copy(copy) => {
                    if let Err(reason) = find_image_folder(&copy.target) {
                        self.add_at(at(copy.line), format!("COPY: the target {reason}"));
                    }
                    if let Err(error) = find_sources(dockerfile, copy) {
                        self.add_at(at(copy.line), format!("COPY: {error}"));
                    }
                }
                FileAction::Run(command) if command.is_covered(&self.capabilities.provided) => {
                    self.check_run_effects(command.line, dockerfile, command);
                }
                FileAction::Run(command) if !self.capabilities.has(Feature::Setup) => {
                    let message = self.explain_run(command);
                    self.add_at(at(command.line), message);
                }
                FileAction::Run(_) => {}
            }
        }
    }

    /// Looks at the files that an interpreted RUN line makes.
    fn check_run_effects(
        &mut self,
        line: usize,
        dockerfile: &Dockerfile,
        command: &super::dockerfile::SetupCommand,
    ) {
        for effect in command.effects.iter().flatten() {
            let (RunEffect::Folder { path, .. } | RunEffect::Mode { path, .. }) = effect else {
                continue;
            };
            let path = resolve(&command.workdir, path);
            if let Err(reason) = find_image_folder(&path) {
                let location = TextLocation::from_line(&dockerfile.path, line);
                self.add_at(location, format!("RUN: the path {reason}"));
            }
        }
    }

    fn explain_run(&self, command: &super::dockerfile::SetupCommand) -> String {
        let packages = match command.packages() {
            Ok(packages) => packages,
            Err(reason) => {
                return format!(
                    "RUN: {reason}, so it would have to be run, and RUN lines are run only by `--setup`: put what it makes into files that are copied"
                );
            }
        };
        let provided = &self.capabilities.provided;
        let missing = packages
            .into_iter()
            .filter(|wanted| !provided.iter().any(|entry| entry.covers(wanted)));
        let missing: Vec<&Package> = missing.collect();
        let entries: Vec<String> = missing.iter().map(|package| format!("\"{package}\"")).collect();
        let commands: Vec<String> =
            missing.iter().map(|package| install_command(package)).collect();
        format!(
            "RUN: it installs packages that the machine is not said to provide: install them by `{}` and add {} to \
             `provided` of [bench]",
            commands.join("; "),
            entries.join(", ")
        )
    }

    fn check_network(&mut self, policy: &NetworkPolicy) {
        match policy {
            NetworkPolicy::NoNetwork => self.add_unless(
                Feature::CutNetwork,
                true,
                "it has to run without network, which cannot be cut off here: use the isolation `namespace`",
            ),
            NetworkPolicy::Allowlist(_) => self.add_unless(
                Feature::FilterNetwork,
                true,
                "it may reach the hosts of `allowed_hosts` only, and single hosts cannot be let through here",
            ),
            NetworkPolicy::Public => {}
        }
    }

    fn check_variables(&mut self, env: &BTreeMap<String, String>) {
        if let Err(error) = resolve_env(env, &self.capabilities.variables) {
            self.add(error.to_string());
        }
    }

    fn check_step(&mut self, step: &Step) {
        for policy in [&step.agent.network, &step.verifier.network].into_iter().flatten() {
            self.check_network(policy);
        }
        self.check_variables(&step.verifier.env);
        if let Some(environment) = &step.verifier.environment {
            self.check_environment(
                &environment.settings,
                &environment.source,
                environment.has_bundled_tests,
            );
            self.check_variables(&environment.settings.env);
        }
        let artifact_services =
            step.artifacts.iter().filter_map(|artifact| artifact.service.as_deref());
        let collect_services = step.verifier.collect.iter().map(|command| command.service.as_str());
        for service in
            artifact_services.chain(collect_services).filter(|name| *name != MAIN_SERVICE)
        {
            if !self.capabilities.has(Feature::Compose) {
                self.add(format!("it collects from the service \"{service}\", and only \"{MAIN_SERVICE}\" is started"));
            }
        }
        self.check_users(step);
        self.add_unless(
            Feature::PriorTrajectory,
            step.prior_trajectory.is_some(),
            "it continues another agent's trajectory (trajectory.json), which this agent is not given",
        );
        match &step.verification {
            Verification::Script { folders, files, script, .. }
                if !folders.is_empty()
                    && files.iter().all(|file| file.target != *script)
                    && !folders.iter().any(|folder| folder.join(script).is_file()) =>
            {
                let name = script.display();
                self.add(format!("its tests have no {name}, only one for Windows"));
            }
            Verification::Command { files, program, .. } if program.is_empty() => {
                let name =
                    files.first().map(|file| file.target.display().to_string()).unwrap_or_default();
                self.add(format!(
                    "no command is known that runs tests such as {name}: write it as a Harbor task, with tests/test.sh"
                ));
            }
            _ => {}
        }
    }

    /// Looks for what a container that is made once cannot change between agent and verifier.
    fn check_container(&mut self, step: &Step) {
        let own = &self.task.environment.network;
        let of_verifier =
            step.verifier.network.as_ref().filter(|_| step.verifier.environment.is_none());
        if step.agent.network.iter().chain(of_verifier).any(|policy| policy != own) {
            self.add(
                "agent and verifier have different networks, and a container has one: use the isolation `namespace`",
            );
        }
    }

    /// Looks for users that keep the agent's files and the verifier's apart. One user for all does no harm.
    fn check_users(&mut self, step: &Step) {
        let default = match &self.task.source {
            EnvironmentSource::Dockerfile(dockerfile) => dockerfile.user.as_ref(),
            _ => None,
        };
        let is_root = |user: Option<&User>| user.or(default).is_none_or(User::is_root);
        let (agent, verifier) = (step.agent.user.as_ref(), step.verifier.user.as_ref());
        let differ = is_root(agent) != is_root(verifier)
            || (!is_root(agent) && agent.or(default) != verifier.or(default));
        self.add_unless(
            Feature::Users,
            differ,
            "agent and verifier are different users, and there is only one here",
        );
    }
}
