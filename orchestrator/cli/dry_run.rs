//! `run --dry-run`: what would run. It leaves the state directory as it was.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::exit;
use ralph_orchestrator_assembly::git::RunPlace;
use ralph_orchestrator_assembly::sandbox::SandboxPolicy;
use ralph_orchestrator_backlog::{BacklogItem, ItemCounts};
use ralph_orchestrator_config::{CommitMode, Initializer, OnComplete, Role};
use ralph_orchestrator_engine::{DryRun, Session, SetupPlan, find_role_prompt};
use ralph_orchestrator_machine::{Limit, RunLimits};
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_story::words::EVIDENCE_ONLY;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::{count, escape, one_line};
use serde_json::{Value, json};

use crate::error::stop_exit_status;

/// What lets a paused run go on.
pub(crate) const ENDS_PAUSE: &str = "`resume` ends the pause";

/// Deletes, when it is dropped, what a dry run put into the state directory: its lock and key.
pub(crate) struct DryRunTraces {
    layout: Layout,
    /// What was there before; `None` if the directory itself was not.
    before: Option<BTreeSet<OsString>>,
}

impl DryRunTraces {
    pub(crate) fn new(layout: Layout) -> Self {
        let before = layout.root().is_dir().then(|| entries(layout.root()));
        Self { layout, before }
    }
}

impl Drop for DryRunTraces {
    /// What cannot be deleted is in nobody's way.
    fn drop(&mut self) {
        let root = self.layout.root();
        // A workspace that was made from its template is still to be renewed by `--restart`.
        let kept = self.layout.origin();
        let kept = kept.is_file().then(|| kept.file_name().map(OsString::from)).flatten();
        let known = self.before.iter().flatten().chain(&kept).collect::<BTreeSet<_>>();
        for name in entries(root).iter().filter(|name| !known.contains(name)) {
            let path = root.join(name);
            // All that a dry run leaves in the folder of a series is its lock.
            let _ = fs::remove_file(path.join("lock"));
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
        if self.before.is_none() && kept.is_none() {
            let _ = fs::remove_dir(root);
        }
    }
}

fn entries(folder: &Path) -> BTreeSet<OsString> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

/// What would be worked on next.
pub(crate) enum PlannedBacklog<'a> {
    Item {
        path: &'a Path,
        counts: ItemCounts,
        item: &'a BacklogItem,
    },
    /// The initializer has to make it.
    ToBeMade {
        path: &'a Path,
    },
}

/// Says what follows a completion, if anything does.
fn describe_proposal(place: &RunPlace) -> Option<&'static str> {
    let is_wanted = place.context.loaded.config.git.on_complete == OnComplete::PullRequest;
    is_wanted.then_some(
        "pushes that branch to its remote, never by force, and opens a draft pull request: the checks and their results, the \
         parts that no check notices, the cost, how to verify",
    )
}

/// Shows what would run. Returns the exit status: where nothing would, that of the run.
pub(crate) fn show(
    session: &Session,
    place: &RunPlace,
    backlog: Option<&PlannedBacklog<'_>>,
    policy: Option<&SandboxPolicy>,
    json: bool,
) -> u8 {
    let (plan, loaded) = (session.plan(), &place.context.loaded);
    let status = plan.stop_reason.map_or(exit::OK, |reason| stop_exit_status(reason, false, 0));
    let roles = Roles::of(session, &place.context);
    if json {
        let mut object = serde_json::to_value(&plan).unwrap_or_default();
        if let Some(object) = object.as_object_mut() {
            object.insert("git".to_owned(), json!({"commit": loaded.config.git.commit}));
            object.extend(roles.map(|roles| ("roles".to_owned(), roles.object())));
            object.extend(backlog.map(|backlog| ("backlog".to_owned(), backlog.object())));
            object.extend(policy.map(|policy| ("sandbox".to_owned(), policy.home_object())));
            if loaded.config.git.worktree {
                object.insert("worktree".to_owned(), place.object());
            }
        }
        output::json(&object);
        return status;
    }
    let show = |line: &str| output::result_folded(line, INDENT);
    show(&format!("would run {} in {}", plan.agent, plan.workspace.display()));
    if let Some(worktree) = place.describe() {
        show(&format!("  worktree    {worktree}"));
    }
    if let Some(proposal) = describe_proposal(place) {
        show(&format!("  completion  {proposal}"));
    }
    if !plan.fallback.is_empty() {
        show(&format!("  fallback    {}", plan.fallback.join(", ")));
    }
    if !plan.escalate.is_empty() {
        show(&format!("  escalates   to {}", plan.escalate.join(", ")));
    }
    backlog.iter().flat_map(|backlog| backlog.lines()).for_each(|line| show(&line));
    roles.iter().flat_map(Roles::lines).for_each(|line| show(&line));
    show(&format!("  program     {}", plan.program.as_deref().unwrap_or("none")));
    if let Some(setup) = &plan.setup {
        show(&format!("  setup       {}", setup_text(setup)));
    }
    show(&format!("  detectors   {}", plan.detectors.join(", ")));
    for demand in &plan.validators {
        show(&format!("  validator   {demand}"));
    }
    if !plan.validation_required {
        show("  validator   NONE: the agent's claim is trusted");
    } else if plan.evidence_only {
        show(&format!("  completion  {EVIDENCE_ONLY}"));
    }
    show(&format!("  limits      {}", limits(&plan.limits)));
    show(&format!("  git         {}", stored_in_git(loaded.config.git.commit)));
    show(&format!("  environment {}", plan.env.join(" ")));
    if let Some(policy) = policy {
        show(&format!("  sandbox     on: {}", policy.describe_home()));
    }
    show(&format!("  state       {}", plan.state_dir.display()));
    if let Some(instructions) = &plan.instructions {
        show(&format!("  after prompt {}", instructions.trim()));
    }
    show(&format!("  next        {}", describe_next(session, &plan)));
    status
}

/// Returns which iteration a start would begin, or why none.
fn describe_next(session: &Session, plan: &DryRun) -> String {
    let is_paused = session.state().is_pause_requested();
    match (plan.next_iteration, &plan.message) {
        (Some(iteration), _) if is_paused => format!("iteration {iteration}, once {ENDS_PAUSE}"),
        (Some(iteration), _) => format!("iteration {iteration}"),
        (None, message) => format!("no iteration: {}", message.as_deref().unwrap_or_default()),
    }
}

/// Where values begin.
const INDENT: usize = 14;

/// The setup, and that it is skipped until the file that it runs is made.
pub(crate) fn setup_text(setup: &SetupPlan) -> String {
    match &setup.missing {
        Some(file) => format!(
            "`{}`; skipped until {} exists, which is still to be made",
            setup.command,
            escape(&file.display().to_string())
        ),
        None => format!("`{}` before each iteration", setup.command),
    }
}

impl PlannedBacklog<'_> {
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Item { path, counts, item } => {
                let name = one_line(&format!("{}: {}", item.id, item.title), 120);
                let path = path.display();
                vec![format!("  backlog     {path}: {counts}"), format!("  next item   {name}")]
            }
            Self::ToBeMade { path } => {
                vec![format!("  backlog     {}: the initializer has to make it", path.display())]
            }
        }
    }

    fn object(&self) -> Value {
        match self {
            Self::Item { path, counts, item } => json!({
                "path": path, "items": counts, "item": {"id": item.id, "title": item.title},
            }),
            Self::ToBeMade { path } => json!({"path": path, "items": null, "item": null}),
        }
    }
}

/// The roles of a run, each with the origin of its prompt, in the order in which they work.
struct Roles<'a> {
    prompts: Vec<(Role, String)>,
    /// What has to be there before the work begins, unless it is.
    initializer: Option<&'a Initializer>,
}

impl<'a> Roles<'a> {
    /// `None` if roles have no prompts.
    fn of(session: &Session, context: &'a Context) -> Option<Self> {
        let (config, trust) = (&context.loaded.config, context.trust_store());
        let prompts = config.prompts.as_ref()?;
        let initializer =
            config.initializer.as_ref().filter(|_| !session.state().initializer.is_done);
        let works = config.run.role.map_or(Role::Coding, Role::from);
        let roles = initializer.map(|_| Role::Initializer).into_iter().chain([works]);
        let origin = |role| {
            let found = find_role_prompt(prompts, role, &trust);
            (role, found.map_or_else(|error| error.to_string(), |found| found.origin()))
        };
        Some(Self { prompts: roles.map(origin).collect(), initializer })
    }

    fn lines(&self) -> Vec<String> {
        let prompts = self.prompts.iter();
        let mut lines: Vec<String> = prompts
            .map(|(role, prompt)| {
                format!("  role        {}, prompt {}", role.word(), one_line(prompt, 200))
            })
            .collect();
        lines.extend(self.initializer.map(|initializer| {
            let attempts = count(u64::from(initializer.max_attempts), "attempt");
            let products = products(initializer).join(", ");
            format!("  initializer at most {attempts}, until there is {}", one_line(&products, 300))
        }));
        lines
    }

    fn object(&self) -> Value {
        let prompts = self.prompts.iter();
        json!({
            "prompts": prompts
                .map(|(role, prompt)| json!({"role": role.word(), "prompt": prompt}))
                .collect::<Vec<_>>(),
            "initializer": self.initializer.map(|initializer| json!({
                "products": products(initializer), "max_attempts": initializer.max_attempts,
            })),
        })
    }
}

/// What the initializer has to produce.
fn products(initializer: &Initializer) -> Vec<String> {
    let files = initializer.files().into_iter().map(|(path, is_executable)| {
        format!("{}{}", path.display(), if is_executable { " (executable)" } else { "" })
    });
    files.chain(initializer.commit.then(|| "a commit".to_owned())).collect()
}

/// What is stored in git, and when.
const fn stored_in_git(mode: CommitMode) -> &'static str {
    match mode {
        CommitMode::Off => "nothing is stored",
        CommitMode::Checkpoint => "a checkpoint after each iteration",
        CommitMode::Iteration => "a checkpoint and a commit after each iteration",
        CommitMode::Handoff => "a checkpoint after each iteration, a commit after a hand-off",
    }
}

/// The limits that end most runs.
fn limits(limits: &RunLimits) -> String {
    let text =
        |limit| limits.value(limit).map_or_else(|| "no limit".to_owned(), |most| most.to_string());
    format!(
        "iterations {}, cost {}, runtime {}",
        text(Limit::Iterations),
        text(Limit::Cost),
        text(Limit::Runtime)
    )
}
