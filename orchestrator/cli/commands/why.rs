//! `why`

mod what_if;

use ralph_orchestrator_assembly::backlog_view::BacklogView;
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git::{UncommittedView, enter_existing};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::{context, registry, run_selection};
use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_contract::{Tokens, Usd};
use ralph_orchestrator_engine::find_protected_changes;
use ralph_orchestrator_machine::{IterationOutcome, ResumeBlocker, State};
use ralph_orchestrator_store::Lock;
use ralph_orchestrator_story::next_step;
use ralph_orchestrator_story::run_summary::{IterationSummary, RunSummary, TreeChange};
use ralph_orchestrator_story::selected_run::SelectedRun;
use ralph_orchestrator_story::words::{
    changes, describe_tests, outcome, reviews, tokens, used_by_agents,
};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::size::{USUAL_WIDTH, stdout_width};
use ralph_orchestrator_text::{columns, duration, escape_line, fold, one_line};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(crate) struct WhyArgs {
    /// Explain an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Say what a start with another agent would have cost, by all runs of this workspace
    #[arg(long, conflicts_with = "run")]
    pub(crate) what_if: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

/// Wider lines are hard to read.
const WIDEST: usize = 120;
/// Where the amounts begin.
const MONEY_INDENT: usize = 9;
/// Groups of iterations that are shown; of more, the first and the last.
const MOST_GROUPS: usize = 40;

pub(crate) fn why(file: &ConfigFile, args: &WhyArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let width = stdout_width().unwrap_or(USUAL_WIDTH).min(WIDEST);
    if args.what_if {
        return what_if::print(&context, width, args.json);
    }
    let stored = run_selection::read_story(&context, args.run.as_deref())?;
    let Some((stored, story)) = stored else {
        let layout = context.layout()?;
        let running = Lock::holder(&layout).is_some();
        if args.json {
            output::json(&json!({"run": null, "running": running, "state_dir": layout.root()}));
        } else {
            output::result(&run_selection::no_run(&context));
        }
        return Ok(exit::OK);
    };
    let program = context::invocation(file);
    let layout = run_selection::backlog_layout(&context, &stored)?;
    let backlog = BacklogView::read(&enter_existing(context.clone())?, &layout)?;
    let unfinished = backlog.as_ref().and_then(|backlog| backlog.advice(&program));
    // The runs of a backlog have what is left of its limits.
    let plain = Some(&context.loaded).filter(|_| backlog.is_none());
    let is_set_aside = backlog.as_ref().is_some_and(|backlog| backlog.is_over(&stored.found.run));
    let unproved = backlog.as_ref().and_then(|backlog| backlog.ledger.unproved_items());
    let refusal = if args.run.is_none() { find_refusal(&context, &stored) } else { None };
    let uncommitted = find_uncommitted(&context, &stored, &story)?;
    let hints = Hints {
        program: &program,
        unfinished,
        is_set_aside,
        unproved,
        refusal,
        plain,
        uncommitted,
    };
    if args.json {
        let mut object = object(&stored, &story, &hints);
        if let (Some(backlog), Some(object)) = (&backlog, object.as_object_mut()) {
            object.insert("backlog".to_owned(), backlog.object(Some(&stored.found)));
        }
        output::json(&object);
    } else {
        let about = backlog.iter().flat_map(|backlog| backlog.lines(Some(&stored.found)));
        about.for_each(|line| {
            output::result(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        });
        let by_agent = backlog.as_ref().and_then(|it| what_if::describe_backlog(it, &layout));
        let lines = lines((&stored, &story), by_agent, (&hints, width));
        lines.iter().for_each(|line| output::result(line));
    }
    Ok(exit::OK)
}

/// Returns why `run` would not go on with the run, if a person has changed what that protects.
fn find_refusal(context: &Context, stored: &SelectedRun) -> Option<String> {
    if stored.is_running() || stored.found.state.completion().is_some() {
        return None;
    }
    let Context { loaded, vars, compiled_in, .. } = &enter_existing(context.clone()).ok()?;
    let registry = registry::unsupervised(&Plugins::none(compiled_in));
    let (found, layout) = (&stored.found, &stored.layout);
    let changes = find_protected_changes(found, layout, loaded, vars, &registry);
    block_on(async { Ok(changes.await) }).ok()?
}

/// Returns what of the run is in no commit, if it does not work now.
fn find_uncommitted(
    context: &Context,
    stored: &SelectedRun,
    story: &RunSummary,
) -> Result<Option<String>, CommandError> {
    if stored.is_running() {
        return Ok(None);
    }
    let (layout, found) = (&stored.layout, &stored.found);
    let view = block_on(async { Ok(UncommittedView::read(context, layout, found, story).await) })?;
    Ok(view.map(|view| format!("commit what you want to keep: {}", view.describe())))
}

/// What advice needs beside the run.
struct Hints<'a> {
    /// The command line of this program.
    program: &'a str,
    /// What helps while the backlog that the run is part of is not complete.
    unfinished: Option<String>,
    /// The item of the run was set aside after it: it is not resumed.
    is_set_aside: bool,
    /// Items of the backlog whose completion proves nothing.
    unproved: Option<String>,
    /// Why the next `run` would start nothing, whatever else is done.
    refusal: Option<String>,
    /// What to do about the run's files that are in no commit.
    uncommitted: Option<String>,
    /// What the next `run` is configured to.
    plain: Option<&'a LoadedConfig>,
}

/// Iterations in a row in which the same happened.
struct IterationGroup<'a> {
    episodes: Vec<&'a IterationSummary>,
}

impl IterationGroup<'_> {
    fn first(&self) -> u64 {
        self.episodes.first().map_or(0, |episode| episode.iteration)
    }

    fn last(&self) -> u64 {
        self.episodes.last().map_or(0, |episode| episode.iteration)
    }

    /// `before the first`, `3` or `4–9`.
    fn name(&self) -> String {
        match (self.first(), self.last()) {
            (0, 0) => "start".into(),
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}–{last}"),
        }
    }

    fn cost(&self) -> Usd {
        self.episodes.iter().map(|episode| episode.cost_usd).sum()
    }

    fn tokens(&self) -> Tokens {
        let all = self.episodes.iter().map(|episode| episode.tokens);
        all.fold(Tokens::default(), |sum, one| sum + one)
    }

    /// How long they took, if they have ended.
    fn time(&self) -> String {
        if self.episodes.iter().any(|episode| episode.outcome.is_none()) {
            return "not finished".to_owned();
        }
        duration(
            self.episodes.iter().map(|episode| episode.duration_ms).fold(0, u64::saturating_add),
        )
    }

    fn facts(&self, story: &RunSummary) -> String {
        let alone = self.episodes.len() == 1;
        self.episodes.first().map(|episode| facts(episode, alone, story)).unwrap_or_default()
    }
}

fn groups(story: &RunSummary) -> Vec<IterationGroup<'_>> {
    let mut groups: Vec<IterationGroup<'_>> = Vec::new();
    for episode in story.iterations.values().filter(|episode| !episode.is_empty()) {
        match groups.last_mut() {
            // What was before the first iteration is no iteration.
            Some(group)
                if group.first() > 0
                    && group.episodes.last().is_some_and(|last| last.is_like(episode)) =>
            {
                group.episodes.push(episode);
            }
            _ => groups.push(IterationGroup { episodes: vec![episode] }),
        }
    }
    groups
}

/// What happened in an iteration and after it; what is different in each of a group only if it is `alone`.
fn facts(episode: &IterationSummary, alone: bool, story: &RunSummary) -> String {
    let mut facts = Vec::new();
    if let Some(problem) = &episode.setup_problem {
        facts.push(format!("setup failed: {}", first_line(problem)));
    }
    if episode.attempts > 0 {
        facts.extend(episode.role.as_ref().map(|role| format!("as {}", one_line(role, 40))));
        facts.push(match &episode.outcome {
            Some(IterationOutcome::Succeeded) => "agent ended".to_owned(),
            Some(how) => one_line(&outcome(how), 160),
            None => "not finished".to_owned(),
        });
        facts.extend(tree(episode.tree).map(|what| match &episode.changes {
            Some(changed) if alone && episode.tree == TreeChange::New => {
                format!("changed {}", changes(changed))
            }
            _ => what.to_owned(),
        }));
    }
    if episode.evidence_written > 0 {
        facts.push("wrote evidence".into());
    }
    if episode.claims > 0 {
        facts.push("claimed completion".into());
    }
    if episode.needs_human {
        facts.push("asked for a human".into());
    }
    if let Some(reason) = &episode.near_miss {
        facts.push(format!("near miss, not a valid claim: {}", one_line(reason, 160)));
    }
    if episode.says_done && episode.claims == 0 && story.claim_stats.needs_claims() {
        facts.push("said that it was done, but claimed nothing".into());
    }
    let tests = episode.tests.iter().filter(|_| alone);
    let tests = describe_tests(tests.map(|(name, tests)| (name, *tests)));
    match episode.accepted {
        Some(true) => facts.push(format!("accepted{tests}")),
        Some(false) => {
            let causes = episode.causes.iter().filter_map(|at| story.claim_stats.causes.get(*at));
            let causes: Vec<String> =
                causes.map(|cause| story.claim_stats.cause_text(cause)).collect();
            // The causes themselves say that nothing was checked.
            let word = if episode.unchecked { String::new() } else { format!("rejected{tests}: ") };
            facts.push(format!("{word}{}", one_line(&causes.join("; "), 300)));
        }
        None => {}
    }
    facts.join(", ")
}

/// The first line of a problem; what the setup printed follows it.
fn first_line(problem: &str) -> String {
    one_line(problem.lines().next().unwrap_or_default().trim_end_matches('.'), 160)
}

const fn tree(change: TreeChange) -> Option<&'static str> {
    match change {
        TreeChange::Unknown => None,
        TreeChange::Unchanged => Some("changed nothing"),
        TreeChange::New => Some("changed files"),
        TreeChange::Back => Some("restored files to an earlier state"),
    }
}

/// Returns what people see; `of_backlog` is what each agent has used in all runs of the backlog.
fn lines(
    (stored, story): (&SelectedRun, &RunSummary),
    of_backlog: Option<String>,
    (hints, width): (&Hints<'_>, usize),
) -> Vec<String> {
    let (state, running) = (&stored.found.state, stored.is_running());
    let mut lines = fold(&headline(state, story, running), 0, width);
    lines.push(format!("run {}", stored.found.run));
    if let Some(line) = story.claim_stats.summary_line() {
        lines.extend(fold(&one_line(&line, 400), 0, width));
    }
    if let Some(explained) = &state.explained {
        lines.extend(fold(&format!("made green: {}", escape_line(&explained.summary)), 0, width));
    }
    for review in reviews(state) {
        lines.extend(fold(&review, 2, width));
    }
    let groups = groups(story);
    let shown = shown(&groups);
    lines.extend([String::new(), "What happened:".into()]);
    for (group, gap) in &shown {
        if *gap > 0 {
            lines.push(format!("  …      {gap} more groups of iterations: `log` lists them all"));
        }
        let head = format!("  {:<6} ", group.name());
        let text = format!("{head}{}", group.facts(story));
        lines.extend(fold(&text, columns(&head), width));
    }
    lines.extend([String::new(), "Cost:".into()]);
    let mut money = money(stored, story, &shown);
    let by_agent = used_by_agents(&stored.found.state);
    money.extend(by_agent.map(|text| format!("  by agent: {text}")));
    money.extend(of_backlog.map(|text| format!("  all items, by agent: {text}")));
    lines.extend(money.iter().flat_map(|line| fold(line, MONEY_INDENT, width)));
    lines.extend([String::new(), "What to do:".into()]);
    for advice in advice(state, story, running, hints) {
        lines.extend(fold(&format!("  - {advice}"), 4, width));
    }
    lines
}

/// The first and last groups, each with how many were left out before it.
fn shown<'a, 'b>(groups: &'b [IterationGroup<'a>]) -> Vec<(&'b IterationGroup<'a>, usize)> {
    let half = MOST_GROUPS / 2;
    let left_out = groups.len().saturating_sub(MOST_GROUPS);
    let last = if left_out > 0 { half + left_out } else { 0 };
    groups
        .iter()
        .enumerate()
        .filter(|(index, _)| left_out == 0 || *index < half || *index >= last)
        .map(|(index, group)| (group, if left_out > 0 && index == last { left_out } else { 0 }))
        .collect()
}

fn headline(state: &State, story: &RunSummary, running: bool) -> String {
    if let Some(completion) = state.completion() {
        let how = if completion.validated { "" } else { " WITHOUT validation" };
        return format!("completed{how}: {}", one_line(&completion.claim.text, 200));
    }
    if running {
        return format!("running, iteration {}", state.iterations);
    }
    if next_step::is_answered(state) {
        return "stopped: the question is answered".to_owned();
    }
    state.stop.as_ref().map_or_else(
        || "interrupted: the orchestrator died".to_owned(),
        |stop| {
            // What became of the claims has a line of its own.
            let tally = story.claim_stats.summary_line().map(|line| format!("; {line}"));
            let message = stop.message.as_str();
            let message =
                tally.and_then(|tally| message.strip_suffix(tally.as_str())).unwrap_or(message);
            let message = one_line(message, 300);
            if message.starts_with(stop.reason.word()) {
                return message;
            }
            format!("{}: {message}", stop.reason.word())
        },
    )
}

fn money(
    stored: &SelectedRun,
    story: &RunSummary,
    groups: &[(&IterationGroup<'_>, usize)],
) -> Vec<String> {
    let (state, runtime) = (&stored.found.state, duration(stored.runtime_ms()));
    let limit = state.limits.max_cost_usd.map(|max| format!(" of {max}")).unwrap_or_default();
    if !state.budget.cost_reported && state.cost() == Usd::ZERO {
        let used = in_words(state.tokens());
        let mut lines = vec![format!("  not reported by the agent; runtime {runtime}{used}")];
        lines.extend(groups.iter().filter(|(group, _)| group.last() > 0).map(|(group, _)| {
            let used = in_words(group.tokens());
            format!("  {:<6} {}{used}", group.name(), group.time())
        }));
        return lines;
    }
    let estimated = if state.budget.cost_estimated { " (estimated)" } else { "" };
    let total = state.cost();
    let used = in_words(state.tokens());
    let mut lines = vec![format!("  total  {total}{limit}{estimated}, runtime {runtime}{used}")];
    for (group, _) in groups.iter().filter(|(group, _)| group.last() > 0) {
        let count = u64::try_from(group.episodes.len()).unwrap_or(u64::MAX);
        let each = Usd::from_nanos(group.cost().nanos() / count.max(1));
        let each = if count > 1 { format!(", {each} each") } else { String::new() };
        let time = group.time();
        let used = in_words(group.tokens());
        lines.push(format!("  {:<6} {}{each}, {time}{used}", group.name(), group.cost()));
    }
    let dearest = story.iterations.values().max_by_key(|episode| episode.cost_usd);
    let several = story.iterations.keys().filter(|iteration| **iteration > 0).count() > 1;
    if let Some(dearest) = dearest.filter(|dearest| several && dearest.cost_usd > Usd::ZERO) {
        lines.push(format!(
            "  most expensive: iteration {}, {}",
            dearest.iteration, dearest.cost_usd
        ));
    }
    lines
}

/// Tokens to append to a line; nothing if none were reported.
fn in_words(used: Tokens) -> String {
    if used.total() == 0 { String::new() } else { format!(", tokens: {}", tokens(used)) }
}

/// Returns what is left to do once all is complete; `unproved` are items that the checks had accepted already.
fn judge_completion(state: &State, unproved: Option<&str>) -> String {
    if let Some(items) = unproved {
        let items = one_line(items, 200);
        return format!(
            "review {items}: the checks had accepted the workspace before any work on them"
        );
    }
    let what = if state.validation.baseline_accepted == Some(true) {
        "review the work: the checks accept it, but accepted the workspace before any work, too"
    } else {
        "nothing: the work is proved done"
    };
    what.to_owned()
}

/// What helps, most promising first.
fn advice(state: &State, story: &RunSummary, running: bool, hints: &Hints<'_>) -> Vec<String> {
    let program = hints.program;
    let say = |text: &str| text.to_owned();
    if state.completion().is_some() {
        if let Some(unfinished) = hints.unfinished.as_ref().filter(|_| !running) {
            return vec![unfinished.clone()];
        }
        let what = judge_completion(state, hints.unproved.as_deref());
        let next = format!("{what}. {}", next_step::restart(program));
        return hints.uncommitted.iter().cloned().chain([next]).collect();
    }
    if running {
        return vec![say("wait: `log --follow` shows what happens, and `stop` ends the run")];
    }
    let mut advice: Vec<String> = hints.uncommitted.iter().cloned().collect();
    // Of the validator that stopped the run, the last advice says the same.
    let stopper = match state.resume_blocker() {
        Some(ResumeBlocker::Validator(name)) => Some(name),
        _ => None,
    };
    let errors = story.claim_stats.causes.iter().filter(|cause| cause.is_error);
    for cause in errors.filter(|cause| stopper.as_ref() != Some(&cause.validator)) {
        let name = one_line(&cause.validator, 60);
        advice.push(format!(
            "fix the validator `{name}`, which reached no verdict: `doctor` shows what it lacks"
        ));
    }
    advice.dedup();
    if let Some(problem) = &state.setup.problem {
        advice.push(format!("fix the setup (`run.setup`), which failed: {}", first_line(problem)));
    }
    let most = story
        .claim_stats
        .causes
        .iter()
        .filter(|cause| !cause.is_error)
        .max_by_key(|cause| cause.times);
    if let Some(cause) = most.filter(|_| state.validation.rejection.is_some()) {
        let cause = story.claim_stats.cause_text(cause);
        let text = one_line(state.protected_rejection().unwrap_or(&cause), 400);
        advice.push(format!(
            "find out why it keeps being rejected: {text}. `log {}` shows the last iteration, \
             `log {} --prompt` its prompt",
            state.iterations, state.iterations
        ));
    } else if story.claim_stats.needs_claims()
        && story.claim_stats.claims == 0
        && story.claim_stats.says_done > 0
        // There, what follows says so.
        && state.resume_blocker() != Some(ResumeBlocker::Stagnation)
    {
        advice.push(claim_advice(story));
    }
    // A run that was killed has no stop, and is resumed like one that was asked to stop.
    let resumes = || next_step::resumes(state, program, hints.plain);
    let of_others = hints.unfinished.clone().filter(|_| hints.is_set_aside);
    let next = of_others.or_else(|| next_step::after_with(state, program, hints.plain));
    let next = next.unwrap_or_else(resumes);
    match &hints.refusal {
        Some(refusal) => advice.extend([refusal.clone(), format!("once they are back: {next}")]),
        None => advice.push(next),
    }
    advice
}

/// What to do where the agent said that it was done, but never claimed it.
fn claim_advice(story: &RunSummary) -> String {
    let mut near_misses = story.iterations.values().filter_map(|one| one.near_miss.as_deref());
    match near_misses.next_back() {
        Some(reason) => format!(
            "correct what the prompt says of claims: what the agent wrote is no claim, because {}",
            one_line(reason, 160)
        ),
        None => {
            "say in the prompt how to claim completion: the agent said that it was done, but never \
                 claimed it"
                .to_owned()
        }
    }
}

fn object(stored: &SelectedRun, story: &RunSummary, hints: &Hints<'_>) -> Value {
    let (state, running) = (&stored.found.state, stored.is_running());
    let iterations: Vec<&IterationSummary> =
        story.iterations.values().filter(|episode| !episode.is_empty()).collect();
    json!({
        "run": stored.found.run,
        "running": running,
        "stop_reason": state.stop.as_ref().map(|stop| stop.reason),
        "message": state.stop.as_ref().map(|stop| stop.message.as_str()),
        "summary": story.claim_stats.summary_line(),
        "claims": story.claim_stats.claims,
        "rejections": story.claim_stats.rejections,
        "causes": story.claim_stats.causes,
        "iterations": iterations,
        "cost_usd": state.cost(),
        "cost_estimated": state.budget.cost_estimated,
        "tokens": state.tokens(),
        "runtime_ms": stored.runtime_ms(),
        "explained": state.explained,
        "advice": advice(state, story, running, hints),
        "state_dir": stored.layout.root(),
    })
}
