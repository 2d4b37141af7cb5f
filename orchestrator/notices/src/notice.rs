//! Which records of a run make a notice, and what it says.

use jiff::Timestamp;
use ralph_orchestrator_config::NoticeTopic;
use ralph_orchestrator_contract::{Usage, Usd};
use ralph_orchestrator_machine::{IterationOutcome, Record, StopKind, StopReason, is_unchecked};
use ralph_orchestrator_text::{is_printable, truncate};
use serde::Serialize;

/// The longest text of others in a notice, in characters.
const MOST_TEXT: usize = 600;

/// Something that people or programs are told about a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notice {
    /// The same however often it is sent: the run and the number of the record.
    pub id: String,
    /// What it is about.
    pub topic: NoticeTopic,
    /// When it was recorded.
    pub time: Timestamp,
    /// The run.
    pub run: String,
    /// The name of the workspace's folder.
    pub project: String,
    /// The workspace.
    pub workspace: String,
    /// The last iteration; 0 before the first.
    pub iteration: u64,
    /// What happened, in words of the orchestrator only.
    pub message: String,
    /// What the run waits for a person to say, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The command with which a person goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Words of the agent and its checks, for receivers that ask for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// US dollars so far, as the iterations that have ended are charged; `None` if the agent reports none.
    pub cost_usd: Option<Usd>,
    /// Runtime so far, in milliseconds.
    pub runtime_ms: u64,
}

impl Notice {
    /// Returns a notice that says it is a test, as if a run of this workspace had made it.
    #[must_use]
    pub fn test(run: &str, workspace: &str) -> Self {
        let message = "this is a test of the receiver: nothing has happened".to_owned();
        let source = NoticeSource::new(run, workspace, "", false);
        source.notice(
            format!("{run}:0"),
            Timestamp::now(),
            Fact::new(NoticeTopic::Warning, message),
        )
    }

    /// Returns the line that stands above it.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}: {}", self.project, self.topic.word().replace('_', " "))
    }

    /// Returns all of it as plain text, without the title.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.message.clone();
        for (before, part) in
            [("\n", &self.question), ("\n", &self.content), ("\nnext: ", &self.next)]
        {
            if let Some(part) = part {
                text.push_str(before);
                text.push_str(part);
            }
        }
        text
    }

    /// Returns it as a receiver may see it that does not ask for words of the agent.
    #[must_use]
    pub fn without_content(&self) -> Self {
        Self { content: None, ..self.clone() }
    }
}

/// Derives the notices of one run from its records, in their order.
#[derive(Clone, Debug)]
pub(crate) struct NoticeSource {
    run: String,
    workspace: String,
    project: String,
    /// How this user calls the program for this run.
    program: String,
    /// Its completion is that of an item.
    is_item: bool,
    iteration: u64,
    cost_usd: Option<Usd>,
    runtime_ms: u64,
}

/// What a record says, before the figures of the run are added.
struct Fact {
    topic: NoticeTopic,
    message: String,
    question: Option<String>,
    next: Option<&'static str>,
    content: Option<String>,
}

impl Fact {
    const fn new(topic: NoticeTopic, message: String) -> Self {
        Self { topic, message, question: None, next: None, content: None }
    }
}

/// Returns what an iteration is charged, unless the agent says nothing and nothing is charged for it.
fn known(charged: Usd, usage: &Usage) -> Option<Usd> {
    (usage.cost.is_some() || charged > Usd::ZERO).then_some(charged)
}

fn cost_words(cost: Option<Usd>) -> String {
    cost.map_or_else(|| "cost not reported".to_owned(), |cost| format!("${:.2}", cost.dollars()))
}

impl NoticeSource {
    pub(crate) fn new(run: &str, workspace: &str, program: &str, is_item: bool) -> Self {
        let project = workspace.rsplit('/').find(|part| !part.is_empty()).unwrap_or(workspace);
        Self {
            run: run.to_owned(),
            workspace: workspace.to_owned(),
            project: project.to_owned(),
            program: program.to_owned(),
            is_item,
            iteration: 0,
            cost_usd: None,
            runtime_ms: 0,
        }
    }

    /// Takes the next record, and returns the notice that it makes.
    pub(crate) fn take(&mut self, seq: u64, time: Timestamp, record: &Record) -> Option<Notice> {
        if let Some(runtime_ms) = record.runtime_ms() {
            self.runtime_ms = runtime_ms;
        }
        match record {
            Record::IterationStarted { iteration, .. } => self.iteration = *iteration,
            Record::IterationEnded { cost_usd, usage, .. }
            | Record::ReviewEnded { cost_usd, usage, .. } => {
                if let Some(cost) = known(*cost_usd, usage) {
                    let nanos = self.cost_usd.unwrap_or_default().nanos();
                    self.cost_usd = Some(Usd::from_nanos(nanos.saturating_add(cost.nanos())));
                }
            }
            _ => {}
        }
        let fact = self.fact(record)?;
        Some(self.notice(format!("{}:{seq}", self.run), time, fact))
    }

    /// Returns the notice that a backlog is complete, which no record of a run holds.
    pub(crate) fn backlog_completed(&self, time: Timestamp, message: &str) -> Notice {
        let fact = Fact::new(NoticeTopic::Completed, short(message));
        self.notice(format!("{}:backlog", self.run), time, fact)
    }

    fn notice(&self, id: String, time: Timestamp, fact: Fact) -> Notice {
        Notice {
            id,
            topic: fact.topic,
            time,
            run: self.run.clone(),
            project: self.project.clone(),
            workspace: self.workspace.clone(),
            iteration: self.iteration,
            message: fact.message,
            question: fact.question,
            next: fact.next.map(|command| format!("{} {command}", self.program)),
            content: fact.content,
            cost_usd: self.cost_usd,
            runtime_ms: self.runtime_ms,
        }
    }

    fn fact(&self, record: &Record) -> Option<Fact> {
        use NoticeTopic as Topic;
        Some(match record {
            Record::RunStarted(started) => {
                Fact::new(Topic::Started, format!("a run began with the agent {}", started.agent))
            }
            Record::RunResumed { agent, .. } => {
                let after = count(self.iteration, "iteration");
                Fact::new(Topic::Resumed, format!("the run goes on with {agent} after {after}"))
            }
            Record::IterationEnded { iteration, outcome, cost_usd, usage, .. } => {
                let how = outcome_words(outcome);
                let cost = cost_words(known(*cost_usd, usage));
                Fact::new(Topic::Progress, format!("iteration {iteration} {how}, {cost}"))
            }
            Record::Validated { accepted: false, iteration, verdicts, reasons, .. } => {
                if is_unchecked(verdicts, reasons) {
                    return None;
                }
                let message = format!("the work after iteration {iteration} was not proved done");
                let content = (!reasons.is_empty()).then(|| short(&reasons.join("\n")));
                Fact { content, ..Fact::new(Topic::Rejected, message) }
            }
            Record::Waiting { until_ms, reason, .. } => {
                let until = i64::try_from(*until_ms)
                    .ok()
                    .and_then(|ms| Timestamp::from_millisecond(ms).ok())
                    .map(|time| format!(" until {time:.0}"))
                    .unwrap_or_default();
                let message = format!("the run waits{until}");
                Fact { content: Some(short(reason)), ..Fact::new(Topic::RateLimited, message) }
            }
            Record::AgentChanged { from, to, reason, .. } => {
                let fact = Fact::new(Topic::AgentChanged, format!("{to} took over from {from}"));
                Fact { content: Some(short(reason)), ..fact }
            }
            Record::Paused { .. } => {
                let fact = Fact::new(Topic::Paused, "the run is paused".to_owned());
                Fact { next: Some("resume"), ..fact }
            }
            Record::Warning { message } => Fact::new(Topic::Warning, short(message)),
            Record::Completed { validated, .. } => self.completed(*validated),
            Record::Stopped { reason, message, .. } => return Self::stopped(*reason, message),
            _ => return None,
        })
    }

    fn completed(&self, validated: bool) -> Fact {
        let how = if validated { "proved done" } else { "done by the agent's word alone" };
        let after = count(self.iteration, "iteration");
        let topic = match self.is_item {
            true => NoticeTopic::ItemCompleted,
            false => NoticeTopic::Completed,
        };
        Fact::new(topic, format!("{how} after {after}, {}", cost_words(self.cost_usd)))
    }

    fn stopped(reason: StopReason, message: &str) -> Option<Fact> {
        Some(match reason.kind() {
            StopKind::Done => return None,
            StopKind::Human => Fact {
                question: Some(short(message)),
                next: Some("answer \"…\""),
                ..Fact::new(NoticeTopic::NeedsHuman, "the run needs a person".to_owned())
            },
            StopKind::Once
            | StopKind::Limit
            | StopKind::Stuck
            | StopKind::Refused
            | StopKind::Unavailable
            | StopKind::Interrupted => {
                let fact =
                    Fact::new(NoticeTopic::Stopped, format!("the run stopped: {}", reason.word()));
                Fact { content: Some(short(message)), next: Some("why"), ..fact }
            }
        })
    }
}

const fn outcome_words(outcome: &IterationOutcome) -> &'static str {
    match outcome {
        IterationOutcome::Succeeded => "ended well",
        IterationOutcome::Deferred { .. } => "was refused by the provider",
        IterationOutcome::StoppedEarly { .. } => "was ended early",
        _ => "did not end well",
    }
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Cuts what is too long for a message on a telephone. What must not be shown becomes spaces, but for ends of lines.
fn short(text: &str) -> String {
    truncate(&text.trim().replace(|c| c != '\n' && !is_printable(c), " "), MOST_TEXT)
}
