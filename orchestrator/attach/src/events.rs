//! What is answered at each event of a session. What goes wrong here never lets a session that is checked end as
//! done: it is blocked, with the reason.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::overrides::Overrides;
use ralph_orchestrator_assembly::{context, user_folders};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_supervisor::ancestors;
use ralph_orchestrator_text::{count, one_line};

use super::agent::SessionWork;
use super::check::{CheckOutcome, CheckRequest};
use super::message::{BackgroundTask, HookAnswer, HookEvent, HookMessage};
use super::processes::{agent_of, is_in_run};
use super::record::{BoundSession, SessionRecord, SessionRecords, StoredSession};
use super::{child, transcript::SessionUsage};

/// The longest text of a person or an agent that is stored or passed on, in bytes.
const LONGEST_TEXT: usize = 64 * 1024;
/// Background tasks that are named.
const MOST_TASKS: usize = 10;

/// What a hook is asked with.
pub(crate) struct HookCall {
    pub(crate) message: HookMessage,
    /// The longest that a check may take.
    pub(crate) timeout: Duration,
}

/// Returns the answer to an event.
pub(crate) fn answer(call: &HookCall) -> HookAnswer {
    let Some(event) = HookEvent::find(&call.message.hook_event_name) else {
        return HookAnswer::Pass;
    };
    let above = ancestors();
    if is_in_run(&above) {
        // Its own validators decide.
        return HookAnswer::Pass;
    }
    let session = BoundSession { id: call.message.session_id.clone(), process: agent_of(&above) };
    let answered = match event {
        HookEvent::SessionStart => started(call, session),
        HookEvent::Prompt => prompted(call, session),
        HookEvent::Stop => stopped(call, session),
        HookEvent::SessionEnd => ended(call, &session),
    };
    answered.unwrap_or_else(|error| match event {
        HookEvent::Stop => HookAnswer::Block(not_checked(&error.render(false, None))),
        _ => HookAnswer::LetGo(format!("ralph-orchestrator: {}", error.render(false, None))),
    })
}

/// Why a session is blocked that could not be checked.
fn not_checked(problem: &str) -> String {
    format!(
        "This session ends as done only once it is checked, and it could not be checked: {problem}\n\
         Fix that if you can. Otherwise tell the person: `ralph-orchestrator hook disarm`, in another terminal, \
         ends the checks."
    )
}

fn records() -> SessionRecords {
    SessionRecords::new(&user_folders::state_home(&user_folders::variables()))
}

/// The folder of the session.
fn folder(call: &HookCall) -> Result<PathBuf, CommandError> {
    let cwd = match &call.message.cwd {
        Some(cwd) => cwd.clone(),
        None => std::env::current_dir()?,
    };
    Ok(real_path(&cwd))
}

/// Returns the record of a session, bound to it.
fn find(call: &HookCall, session: BoundSession) -> Result<Option<StoredSession>, CommandError> {
    let records = records();
    let Some(found) = records.find(&folder(call)?, &session)? else { return Ok(None) };
    if found.record.session.as_ref() == Some(&session) {
        return Ok(Some(found));
    }
    let _lock = records.lock()?;
    // Another session may have been faster.
    let Some(mut found) = records.find(&folder(call)?, &session)? else { return Ok(None) };
    if found.record.session.is_none()
        && let Some(transcript) = &call.message.transcript_path
    {
        found.record.counted.skip(transcript);
    }
    found.record.session = Some(session);
    found.write()?;
    Ok(Some(found))
}

/// A session begins: what is protected is recorded, before the agent can change it.
fn started(call: &HookCall, session: BoundSession) -> Result<HookAnswer, CommandError> {
    let records = records();
    records.remove_old();
    let folder = folder(call)?;
    let known = records.find(&folder, &session)?;
    if known.is_some_and(|known| !is_another(&known.record, call, &session, &folder))
        && let Some(found) = find(call, session.clone())?
    {
        // It began when it was armed, or goes on.
        return Ok(announce(HookEvent::SessionStart, found));
    }
    let Some(config) = configuration(&folder) else { return Ok(HookAnswer::Pass) };
    let path = records.session_path(&folder, &session.id);
    let mut record = SessionRecord::new(config, folder);
    record.state = Some(path.with_extension("state"));
    record.session = Some(session);
    // Without a goal nothing has to be checked, so what is wrong is no reason to disturb anybody.
    let begun = child::check(&CheckRequest::to_begin(&record), call.timeout);
    if let Ok(CheckOutcome::Begun { validators, .. }) = begun
        && !validators.is_empty()
    {
        StoredSession { path, record }.write()?;
    }
    Ok(HookAnswer::Pass)
}

/// Returns whether a session that starts is another one than that of its process, which then has several.
fn is_another(
    known: &SessionRecord,
    call: &HookCall,
    session: &BoundSession,
    folder: &Path,
) -> bool {
    let is_taken = known.session.is_some() && !known.is_named(session);
    is_taken && call.message.source == "startup" && !folder.starts_with(&known.workspace)
}

/// The configuration whose workspace is this folder, if there is one.
fn configuration(folder: &Path) -> Option<PathBuf> {
    let file = folder.join(ralph_orchestrator_assembly::discovery::NAME);
    let found = ConfigFile::named(file.clone());
    let context = context::Context::load(&found, Overrides::default()).ok()?;
    (real_path(&context.loaded.config.run.workspace) == folder).then_some(file)
}

/// Returns the goal, the first time, for the agent.
fn announce(event: HookEvent, mut found: StoredSession) -> HookAnswer {
    let Some(goal) = found.record.goal.clone().filter(|_| !found.record.is_announced) else {
        return HookAnswer::Pass;
    };
    found.record.is_announced = true;
    if found.write().is_err() {
        return HookAnswer::Pass;
    }
    HookAnswer::Context(
        event,
        format!(
            "The goal of this session: {goal}\nWhen you stop, the checks of {} run, and the session goes on until \
             they accept. Protected files must stay as they are.",
            found.record.config.display()
        ),
    )
}

/// The person has typed something.
fn prompted(call: &HookCall, session: BoundSession) -> Result<HookAnswer, CommandError> {
    let Some(mut found) = find(call, session)? else { return Ok(HookAnswer::Pass) };
    found.record.prompt = cut(&call.message.prompt);
    found.write()?;
    Ok(announce(HookEvent::Prompt, found))
}

/// The agent wants to stop.
fn stopped(call: &HookCall, session: BoundSession) -> Result<HookAnswer, CommandError> {
    let Some(mut found) = find(call, session)? else { return Ok(HookAnswer::Pass) };
    let record = &found.record;
    if record.until.is_some_and(|until| Timestamp::now() > until) {
        return Ok(give_up(&found, "the time of its goal is over (limits.max_runtime)"));
    }
    let running: Vec<&BackgroundTask> =
        call.message.background_tasks.iter().filter(|task| task.is_running()).collect();
    if record.is_armed && !running.is_empty() {
        return block(found, &unfinished(&running));
    }
    let counted = found.record.counted.clone();
    let used = match &call.message.transcript_path {
        Some(transcript) => found.record.counted.count(transcript),
        None => SessionUsage::default(),
    };
    let model = call.message.model.as_ref().and_then(|model| model.as_str().map(str::to_owned));
    let work = SessionWork {
        session: call.message.session_id.clone(),
        model: used.model.or(model),
        tokens: used.tokens,
        message: cut(call.message.last_assistant_message.as_deref().unwrap_or_default()),
    };
    let request = CheckRequest {
        record: found.record.clone(),
        work: Some(work),
        is_question: found.record.prompt.trim_end().ends_with('?'),
    };
    let outcome = child::check(&request, call.timeout);
    if !outcome.as_ref().is_ok_and(CheckOutcome::is_recorded) {
        // What was used is charged to the next stop.
        found.record.counted = counted;
    }
    match outcome {
        Ok(outcome) => decide(found, outcome),
        Err(problem) => block(found, &not_checked(&problem)),
    }
}

fn decide(mut found: StoredSession, outcome: CheckOutcome) -> Result<HookAnswer, CommandError> {
    match outcome {
        CheckOutcome::NoClaim | CheckOutcome::Answered => {
            found.write()?;
            Ok(HookAnswer::Pass)
        }
        CheckOutcome::Proved { run } => {
            found.remove();
            Ok(HookAnswer::LetGo(format!(
                "ralph-orchestrator: proved; every required validator accepts (run {run})"
            )))
        }
        CheckOutcome::Asks { question } => {
            found.write()?;
            let question = one_line(&question, 500);
            Ok(HookAnswer::LetGo(format!(
                "ralph-orchestrator: not proved yet; the agent needs you: {question}"
            )))
        }
        CheckOutcome::Rejected { feedback } => {
            // From its first claim on, a session is checked whenever it stops.
            found.record.is_armed = true;
            block(found, &feedback)
        }
        CheckOutcome::Stopped { message } => Ok(give_up(&found, &message)),
        CheckOutcome::Begun { .. } | CheckOutcome::Interrupted => {
            block(found, &not_checked("the check was interrupted"))
        }
    }
}

/// Blocks, as long as the limit allows it.
fn block(mut found: StoredSession, reason: &str) -> Result<HookAnswer, CommandError> {
    found.record.blocks = found.record.blocks.saturating_add(1);
    let most = found.record.max_blocks;
    if found.record.blocks > most {
        let times = count(most, "time");
        return Ok(give_up(&found, &format!("it was blocked {times} (`hook arm --max-blocks`)")));
    }
    found.write()?;
    let text = match &found.record.goal {
        Some(goal) => format!("The goal of this session is not reached: {goal}\n\n{reason}"),
        None => reason.to_owned(),
    };
    Ok(HookAnswer::Block(text))
}

/// Lets the session go without a proof.
fn give_up(found: &StoredSession, why: &str) -> HookAnswer {
    found.remove();
    HookAnswer::LetGo(format!(
        "ralph-orchestrator: NOT proved; the session is let go since {why}. `ralph-orchestrator why` has the rest"
    ))
}

/// The session is over: nothing is left of one that was not checked.
fn ended(call: &HookCall, session: &BoundSession) -> Result<HookAnswer, CommandError> {
    if let Some(found) = records().find(&folder(call)?, session)?
        && !found.record.is_armed
    {
        found.remove();
    }
    Ok(HookAnswer::Pass)
}

fn unfinished(running: &[&BackgroundTask]) -> String {
    let names = running.iter().take(MOST_TASKS).map(|task| one_line(&task.name(), 200));
    let names: String = names.map(|name| format!("- {name}\n")).collect();
    format!(
        "Nothing is checked while something still runs in the background. Wait for it, or end it:\n{names}"
    )
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default().to_owned()
}

impl CheckRequest {
    /// Only what the work will be compared with.
    pub(crate) fn to_begin(record: &SessionRecord) -> Self {
        Self { record: record.clone(), work: None, is_question: false }
    }
}
