//! Checks of a configuration, and the defaults for what it leaves out.

mod backlog;
mod bench;
mod escalation;
mod fallback;
mod files;
mod hooks;
mod memory;
mod notify;
mod parallel;
mod plugins;
mod prompts;
mod validation;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::normalize_lexically;
use serde_json::Value;

use crate::Sources;
use crate::diagnostics::Diagnostics;
use crate::document::{CompletionTable, ConfigDocument};
use crate::error::SourceLocation;
use crate::model::{
    AgentConfig, CommitMode, Completion, CompletionTrigger, Config, DetectorConfig, Env, Git,
    Limits, OnComplete, Run, Sandbox, StateConfig, ValidatorConfig,
};
use crate::preset::{Defaults, PRESET, Preset};
use crate::suggest::nearest;
use crate::validator_table::ValidatorTable;

/// The prompt if none is given.
const PROMPT: &str = "PROMPT.md";
const ADD_A_VALIDATOR: &str = r#"add one, for instance

    [[validator]]
    kind = "command"
    program = ["cargo", "test"]

or, to take the agent's word for it, set `trust_agent = true` in [completion]"#;
const ADD_A_TEST_COMMAND: &str = "write the command that proves it after `test_command:`, such as `test_command: \
                                  cargo test`; or, to take the agent's word for it, set `trust_agent = \
                                  true` in [completion] of ralph.toml";
const ADD_A_CHECK: &str = r#"name the command that proves it, such as `--check "cargo test"`"#;

/// Checks everything and fills in what is missing. The result is meaningful only if nothing was added
/// to `diagnostics`.
pub(crate) fn resolve(
    mut file: ConfigDocument,
    sources: &Sources,
    dir: &Path,
    diagnostics: &mut Diagnostics<'_>,
) -> Config {
    let presets = &sources.defaults.presets;
    let has_values =
        file.preset.as_ref().is_none_or(|name| is_known_preset(name, presets, diagnostics));
    let completion = completion(file.completion, &sources.defaults.detectors, diagnostics);
    let validators = validators(file.validator, &sources.defaults, diagnostics);
    // With a mistake in them, nobody knows what the validators were to be.
    // Each item has a check of its own, if there is one in [backlog].
    let has_check = !file.backlog.check.is_empty();
    if has_values && !has_check && !diagnostics.is_damaged(&["validator"]) {
        validation(&validators, &completion, sources, diagnostics);
    }
    let agents = (&mut file.agent, &mut file.agents);
    check_agents(agents, &sources.defaults.adapter, diagnostics);
    plugins::check(&mut file.plugins, dir, diagnostics);
    limits(&file.limits, diagnostics);
    env(&file.env, diagnostics);
    let backlog = backlog::check(file.backlog, &completion.detectors, diagnostics);
    validation::check(&mut file.validation, diagnostics);
    let state =
        file.state.dir.map(|path| make_absolute(&path, dir, &["state", "dir"], diagnostics));
    let has_prompts = file.prompts.is_some();
    let run = run(file.run, has_prompts, dir, diagnostics);
    worktree(&file.git, &run, diagnostics);
    parallel::check(file.parallel, (backlog.is_some(), &file.git), diagnostics);
    memory::check(&mut file.memory, backlog.as_ref(), &run, diagnostics);
    bench::check(&mut file.bench, dir, diagnostics);
    notify::check(&mut file.notify, diagnostics);
    hooks::check(&file.hooks, file.sandbox.mode, diagnostics);
    hooks::check_context(&file.context, diagnostics);
    notify::check_collector(&file.telemetry, diagnostics);
    let initializer = file.initializer;
    let produces = (initializer.as_ref(), backlog.is_some());
    prompts::check(&mut file.prompts, produces, &run, &file.agents, dir, diagnostics);
    Config {
        preset: file.preset,
        trust: file.trust,
        budget: file.budget,
        run,
        prompts: file.prompts,
        initializer,
        agent: file.agent,
        agents: file.agents,
        plugins: file.plugins,
        completion,
        validators,
        limits: file.limits,
        validation: file.validation,
        git: git(file.git, diagnostics),
        handoff: file.handoff,
        memory: file.memory,
        backlog,
        parallel: file.parallel,
        notify: file.notify,
        hooks: file.hooks,
        context: file.context,
        telemetry: file.telemetry,
        bench: file.bench,
        env: file.env,
        sandbox: sandbox(file.sandbox, dir, diagnostics),
        state: StateConfig { dir: state },
    }
}

/// Checks the agents, and who takes over from whom.
fn check_agents(
    (first, agents): (&mut AgentConfig, &mut BTreeMap<String, AgentConfig>),
    adapter: &str,
    diagnostics: &mut Diagnostics<'_>,
) {
    agent(first, adapter, &["agent"], diagnostics);
    for (name, config) in &mut *agents {
        if !is_name(name) {
            diagnostics.add(&["agents", name], "an agent needs a name of one line");
        }
        agent(config, adapter, &["agents", name], diagnostics);
    }
    fallback::check(first, agents, diagnostics);
    if !diagnostics.is_damaged(&["agents"]) {
        escalation::check(first, agents, &["agent"], diagnostics);
        for (name, agent) in &*agents {
            escalation::check(agent, agents, &["agents", name], diagnostics);
        }
    }
}

fn git(git: Git, diagnostics: &mut Diagnostics<'_>) -> Git {
    if git.timeout.is_zero() {
        diagnostics.add(&["git", "timeout"], "must be greater than 0s");
    }
    let has_branch = git.worktree && git.commit == CommitMode::Iteration;
    if git.on_complete == OnComplete::PullRequest && !has_branch {
        let message = "a pull request needs a branch of the run's own with its work: add `worktree = true` and `commit = \"iteration\"`";
        diagnostics.add(&["git", "on_complete"], message);
    }
    git
}

/// Reports a name that no preset has. Where none is known, as when the configuration is read that was stored with a
/// run, all values of the preset are in the file.
fn is_known_preset(name: &str, presets: &[Preset], diagnostics: &mut Diagnostics<'_>) -> bool {
    let known: Vec<&str> = presets.iter().map(|preset| preset.name.as_str()).collect();
    if known.is_empty() || known.contains(&name) {
        return true;
    }
    let near = nearest(name, known.iter().copied());
    let help = near.map_or_else(
        || format!("known are: {}", known.join(", ")),
        |near| format!("did you mean \"{near}\"?"),
    );
    let message = format!("there is no preset called {name:?}");
    diagnostics.add_with_help(&[PRESET], message, Some(&help));
    false
}

fn run(mut run: Run, has_prompts: bool, dir: &Path, diagnostics: &mut Diagnostics<'_>) -> Run {
    if run.prompt.is_some() && run.prompt_text.is_some() {
        one_prompt(&mut run, diagnostics);
    }
    if run.prompt_text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        diagnostics.add(&["run", "prompt_text"], "the prompt is empty");
    }
    // A role's prompt needs no task beside it.
    if run.prompt.is_none() && run.prompt_text.is_none() && !has_prompts {
        run.prompt = Some(PathBuf::from(PROMPT));
    }
    run.prompt = run.prompt.map(|path| make_absolute(&path, dir, &["run", "prompt"], diagnostics));
    run.template =
        run.template.map(|path| make_absolute(&path, dir, &["run", "template"], diagnostics));
    run.workspace = make_absolute(&run.workspace, dir, &["run", "workspace"], diagnostics);
    run
}

fn sandbox(mut sandbox: Sandbox, dir: &Path, diagnostics: &mut Diagnostics<'_>) -> Sandbox {
    for (list, paths) in [("read", &mut sandbox.read), ("write", &mut sandbox.write)] {
        for (index, path) in paths.iter_mut().enumerate() {
            *path = make_absolute(path, dir, &["sandbox", list, &index.to_string()], diagnostics);
        }
    }
    sandbox
}

/// A later layer's prompt replaces that of an earlier one, of whatever form; both in one is a mistake.
fn one_prompt(run: &mut Run, diagnostics: &mut Diagnostics<'_>) {
    let rank = |key: &str| diagnostics.provenance.rank(&["run".to_owned(), key.to_owned()]);
    match rank("prompt").cmp(&rank("prompt_text")) {
        std::cmp::Ordering::Less => run.prompt = None,
        std::cmp::Ordering::Greater => run.prompt_text = None,
        std::cmp::Ordering::Equal => {
            diagnostics.add(
                &["run", "prompt_text"],
                "there is a `prompt` already; only one of the two can be given",
            );
        }
    }
}

/// Paths of all layers are relative to the folder of `ralph.toml`.
pub(crate) fn make_absolute(
    path: &Path,
    dir: &Path,
    key: &[&str],
    diagnostics: &mut Diagnostics<'_>,
) -> PathBuf {
    match path.to_str() {
        Some("") => diagnostics.add(key, "expected a path, found \"\""),
        Some(text) if text.contains('\0') => {
            diagnostics.add(key, "a path cannot have a NUL character");
        }
        Some(text) if text == "~" || text.starts_with("~/") => {
            let help = "write the path in full, or `./~` for a folder of that name";
            diagnostics.add_with_help(key, "`~` is not expanded", Some(help));
        }
        _ => {}
    }
    normalize_lexically(&dir.join(path))
}

fn agent(
    agent: &mut AgentConfig,
    default_adapter: &str,
    path: &[&str],
    diagnostics: &mut Diagnostics<'_>,
) {
    let below = |keys: &[&'static str]| [path, keys].concat();
    if !diagnostics.is_given(&below(&["adapter"])) {
        default_adapter.clone_into(&mut agent.adapter);
    }
    if !is_name(&agent.adapter) {
        let message = format!("expected the name of an adapter, found {:?}", agent.adapter);
        diagnostics.add(&below(&["adapter"]), message);
    }
    let Some(prices) = agent.prices else { return };
    for (key, price) in [
        ("input", prices.input),
        ("output", prices.output),
        ("cache_read", prices.cache_read),
        ("cache_write", prices.cache_write),
    ] {
        if price < 0.0 {
            let message = format!("expected dollars per million tokens, 0 or more, found {price}");
            diagnostics.add(&below(&["prices", key]), message);
        }
    }
}

fn worktree(git: &Git, run: &Run, diagnostics: &mut Diagnostics<'_>) {
    if git.worktree && run.template.is_some() {
        let message = "a workspace that is made from its template is in no repository yet, so there is \
                       nothing to make a worktree of; remove `run.template` or `worktree`";
        diagnostics.add(&["git", "worktree"], message);
    }
}

fn completion(
    file: CompletionTable,
    defaults: &[String],
    diagnostics: &mut Diagnostics<'_>,
) -> Completion {
    let mut detectors = Vec::<DetectorConfig>::new();
    let is_default = file.detectors.is_none() && file.detector.is_empty();
    let named =
        file.detectors.or_else(|| is_default.then(|| defaults.to_vec())).unwrap_or_default();
    let is_empty = named.is_empty() && file.detector.is_empty();
    for (index, name) in named.into_iter().enumerate() {
        let index = index.to_string();
        let path = ["completion", "detectors", &index];
        if !is_name(&name) {
            diagnostics.add(&path, format!("expected the name of a detector, found {name:?}"));
        } else if detectors.iter().any(|known| known.name == name) {
            diagnostics.add(&path, format!("the detector {name:?} is named twice"));
        } else {
            detectors.push(DetectorConfig { name, config: Value::Object(serde_json::Map::new()) });
        }
    }
    let mut seen = BTreeSet::new();
    for (index, table) in file.detector.into_iter().enumerate() {
        let index = index.to_string();
        let path = ["completion", "detector", &index];
        let named = ["completion", "detector", &index, "name"];
        let name = match table.name {
            Some(name) if is_name(&name) => name,
            Some(name) => {
                diagnostics.add(&named, format!("expected the name of a detector, found {name:?}"));
                continue;
            }
            None if diagnostics.is_broken(&named) => continue,
            None => {
                diagnostics.add(&path, "`name` is missing");
                continue;
            }
        };
        if !seen.insert(name.clone()) {
            let message = format!("the detector {name:?} has options twice");
            diagnostics.add(&named, message);
        }
        let config = Value::Object(table.config);
        match detectors.iter_mut().find(|known| known.name == name) {
            Some(known) => known.config = config,
            None => detectors.push(DetectorConfig { name, config }),
        }
    }
    if is_empty {
        let message = "without a detector nothing could ever claim that the task is complete";
        diagnostics.add(&["completion", "detectors"], message);
    }
    Completion {
        detectors,
        when: file.when,
        instructions: file.instructions,
        trust_agent: file.trust_agent,
        after_rejection: file.after_rejection,
        baseline: file.baseline,
    }
}

fn validators(
    tables: Vec<ValidatorTable>,
    defaults: &Defaults,
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<ValidatorConfig> {
    let mut names = explicit_names(&tables, diagnostics);
    let mut validators = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let number = index.to_string();
        let kind = kind(table.kind, &number, diagnostics);
        // Rejected here and not by its type: without the whole array, other mistakes in it would be lost.
        if table.timeout.is_zero() {
            let path = ["validator", &number, "timeout"];
            let help = Some("\"none\" turns this limit off");
            diagnostics.add_with_help(&path, "must be greater than 0s", help);
        }
        let is_optional = defaults.optional_validators.contains(&kind);
        validators.push(ValidatorConfig {
            name: table.name.unwrap_or_else(|| unused_name(&kind, &mut names)),
            kind,
            required: table.required.unwrap_or(!is_optional),
            timeout: table.timeout,
            artefacts: table.artefacts,
            config: Value::Object(table.config),
            index,
        });
    }
    validators
}

fn kind(kind: Option<String>, index: &str, diagnostics: &mut Diagnostics<'_>) -> String {
    let path = ["validator", index, "kind"];
    match kind {
        Some(kind) if is_name(&kind) => return kind,
        Some(kind) => {
            diagnostics.add(&path, format!("expected a kind of validator, found {kind:?}"));
        }
        None if diagnostics.is_broken(&path) => {}
        None => diagnostics.add_missing(&["validator", index], "kind"),
    }
    String::new()
}

/// Names go into messages and reports: one line, not blank.
pub(crate) fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && !text.chars().any(char::is_control)
}

fn explicit_names(
    tables: &[ValidatorTable],
    diagnostics: &mut Diagnostics<'_>,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (index, table) in tables.iter().enumerate() {
        let Some(name) = &table.name else { continue };
        let index = index.to_string();
        let path = ["validator", &index, "name"];
        if !is_name(name) {
            diagnostics.add(&path, format!("expected a name of one line, found {name:?}"));
        } else if !names.insert(name.clone()) {
            diagnostics.add(&path, format!("another validator is called {name:?}"));
        }
    }
    names
}

/// Returns an unused name: `command`, `command-2`, `command-3`, …
fn unused_name(kind: &str, names: &mut BTreeSet<String>) -> String {
    let numbered = |number: usize| match number {
        1 => kind.to_owned(),
        _ => format!("{kind}-{number}"),
    };
    // One of so many names is free.
    let name = (1..=names.len() + 1).map(numbered).find(|name| !names.contains(name));
    let name = name.unwrap_or_default();
    names.insert(name.clone());
    name
}

fn validation(
    validators: &[ValidatorConfig],
    completion: &Completion,
    sources: &Sources,
    diagnostics: &mut Diagnostics<'_>,
) {
    if completion.trust_agent {
        let is_proved = validators.iter().any(|validator| validator.required);
        if completion.when == CompletionTrigger::Proved && !is_proved {
            let message = "without a required validator nothing can prove that the work is done; add one, or \
                           set `when = \"claimed\"`";
            diagnostics.add(&["completion", "when"], message);
        }
    } else if validators.is_empty() {
        let message = "there is no validator, so nothing would prove that the work is done";
        if let Some(task) = &sources.task {
            let location = task.plan.location("test_command");
            return diagnostics.add_at(location, "test_command", message, ADD_A_TEST_COMMAND);
        }
        let without_file =
            matches!(diagnostics.provenance.file(), SourceLocation::CommandLine { .. });
        let help = if without_file { ADD_A_CHECK } else { ADD_A_VALIDATOR };
        diagnostics.add_with_help(&["validator"], message, Some(help));
    } else if validators.iter().all(|validator| !validator.required) {
        let message = "no validator is required, so nothing would prove that the work is done";
        diagnostics.add_with_help(&["validator", "0", "required"], message, Some(ADD_A_VALIDATOR));
    }
}

/// Checks what concerns several limits. The type of each rejects 0.
fn limits(limits: &Limits, diagnostics: &mut Diagnostics<'_>) {
    if limits.max_iterations.is_none()
        && limits.max_runtime.is_none()
        && limits.max_cost_usd.is_none()
    {
        let message = "\"none\" needs `max_runtime` or `max_cost_usd` as a limit";
        let help = "without all three nothing would end the run: give one of them, such as `max_runtime = \"4h\"`";
        diagnostics.add_with_help(&["limits", "max_iterations"], message, Some(help));
    }
    for (name, percent) in &limits.max_window {
        let key = ["limits", "max_window", name];
        if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
            let message = "a rate window's name has lower case letters, digits and `_`, such as `five_hour` or `weekly`";
            diagnostics.add(&key, message);
        } else if !(1..=100).contains(percent) {
            let message = format!("expected a percentage from 1 to 100, found {percent}");
            diagnostics.add(&key, message);
        }
    }
}

fn env(env: &Env, diagnostics: &mut Diagnostics<'_>) {
    let is_other = |c: char| matches!(c, '=' | '\0') || c.is_whitespace();
    let no_name = |name: &str| name.is_empty() || name.contains(is_other);
    for (index, name) in env.pass.iter().enumerate() {
        if no_name(name) {
            let message = format!("expected the name of a variable, found {name:?}");
            diagnostics.add(&["env", "pass", &index.to_string()], message);
        }
    }
    for (name, value) in &env.set {
        if no_name(name) {
            let message = format!("{name:?} is not the name of a variable");
            diagnostics.add(&["env", "set", name], message);
        } else if value.contains('\0') {
            let message = "the value of a variable cannot have a NUL character";
            diagnostics.add(&["env", "set", name], message);
        }
    }
}
