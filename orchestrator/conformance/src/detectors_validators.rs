//! Conformance tests for detectors and validators.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{
    BuildContext, BuildError, CancelReason, CancelSignal, Claim, ClaimKind, ClaimSource,
    CompletionDetector, DetectorInput, Event, EvidenceValidator, NeverCancelled, Tokens, Usage,
    ValidationContext, Verdict, async_trait,
};
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::processes::marked;
use crate::settings::{BACKLOG_CHECKS, DETECTOR_CHECKS, VALIDATOR_CHECKS, word_of};
use crate::{CheckResultRow, CheckSettings, Outcome, TableRow};

/// Nothing that is asked here takes longer, unless something hangs.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long whoever was told to end may take.
const GRACE: Duration = Duration::from_secs(5);
/// A key that no table has.
const UNKNOWN: &str = "conformance_unknown_key";
const MARK: &str = "RALPH_CONFORMANCE_MARK";
/// As long as a prompt may be, in bytes.
const HUGE: usize = 2 * 1024 * 1024;

/// A built item, or why it was not built.
pub type ItemResult<T> = Result<Box<T>, BuildError>;
/// An item being built.
pub type ItemFuture<T> = Pin<Box<dyn Future<Output = ItemResult<T>>>>;
/// Builds an item from its table.
pub type BuildItem<'a, T> = &'a dyn Fn(Value, &BuildContext) -> ItemFuture<T>;
pub(crate) type CheckResult = Result<(), String>;

/// The result that is expected in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseExpectation {
    /// A validator accepts the claim.
    Accepted,
    /// A validator rejects the claim, with reasons.
    Rejected,
    /// A detector finds a claim.
    Claim,
    /// A detector finds none.
    NoClaim,
}

/// A workspace, and the result that is expected in it.
#[derive(Clone, Debug)]
pub struct WorkspaceCase {
    /// What is special about it.
    pub name: String,
    /// The contents of its files, by paths relative to the workspace.
    pub files: BTreeMap<String, String>,
    /// The text of the claim, or the agent's last message for a detector.
    pub text: String,
    /// The result that is expected.
    pub expected: CaseExpectation,
}

/// The fixture of a detector or validator.
pub struct ItemFixture {
    /// For building it.
    pub context: BuildContext,
    /// The environment that its processes have to be started with: they are found by it.
    pub env: BTreeMap<String, String>,
    /// Which checks are run, how long each may take, and who is told of each.
    pub settings: CheckSettings,
    /// Workspaces with the result that is expected in each.
    pub cases: Vec<WorkspaceCase>,
    folder: TempDir,
}

impl Default for ItemFixture {
    fn default() -> Self {
        Self::new()
    }
}

impl ItemFixture {
    /// An empty workspace.
    ///
    /// # Panics
    /// If there is no room for folders.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let root = folder.path().canonicalize().expect("the folder is there");
        for name in ["home", "workspace"] {
            std::fs::create_dir(root.join(name)).expect("there is room for a folder");
        }
        let context = BuildContext {
            config_dir: root.clone(),
            workspace: root.join("workspace"),
            prompt_dir: root.clone(),
            path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
        };
        let texts = [
            ("PATH", context.path.clone()),
            ("HOME", root.join("home").display().to_string()),
            (MARK, root.display().to_string()),
        ];
        let env = texts.map(|(name, value)| (name.to_owned(), value)).into();
        Self { context, env, settings: CheckSettings::default(), cases: Vec::new(), folder }
    }

    /// What all of it is in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn workspace(&self) -> &Path {
        &self.context.workspace
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.workspace()).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// An error if processes are there once they had some time to go.
    pub(crate) async fn check_no_processes(&self) -> CheckResult {
        let mark = self.env.get(MARK).map(String::as_str).unwrap_or_default();
        let mut left = Vec::new();
        for _ in 0..250 {
            left = marked(MARK, mark);
            if left.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(format!("processes were left: {left:?}"))
    }
}

/// The outcomes of all checks, displayed as a table.
#[derive(Clone, Debug)]
pub struct ItemReport {
    /// The item's name.
    pub name: String,
    /// Each check's outcome, and how long it took.
    pub rows: Vec<(String, Outcome, Duration)>,
    settings: CheckSettings,
}

impl ItemReport {
    /// Whether everything holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.rows.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_)))
    }

    pub(crate) fn new(name: &str, place: &ItemFixture) -> Self {
        Self { name: name.to_owned(), rows: Vec::new(), settings: place.settings.clone() }
    }

    pub(crate) async fn ask(&mut self, what: &str, question: impl Future<Output = CheckResult>) {
        let word = word_of(what);
        debug_assert!(
            [&DETECTOR_CHECKS, &VALIDATOR_CHECKS, &BACKLOG_CHECKS]
                .iter()
                .any(|checks| checks.contains(&word.as_str()) || word.starts_with("workspace-")),
            "{word} is on no list"
        );
        if !self.settings.includes(&word) {
            return;
        }
        let began = Instant::now();
        let limit = self.settings.limit(TIMEOUT);
        let (outcome, is_late) = match tokio::time::timeout(limit, question).await {
            Ok(Ok(())) => (Outcome::Passed, false),
            Ok(Err(why)) => (Outcome::Failed(why), false),
            Err(_) => (Outcome::Failed(format!("not within {} s", limit.as_secs_f64())), true),
        };
        self.add(what, (outcome, is_late), began.elapsed());
    }

    /// Builds the item, as the first check.
    pub(crate) async fn open<T: ?Sized>(&mut self, making: ItemFuture<T>) -> Option<Box<T>> {
        let (began, limit) = (Instant::now(), self.settings.limit(TIMEOUT));
        let (outcome, is_late, built) = match tokio::time::timeout(limit, making).await {
            Ok(Ok(built)) => (Outcome::Passed, false, Some(built)),
            Ok(Err(error)) => {
                let place = if error.key.is_empty() {
                    String::new()
                } else {
                    format!("`{}`: ", error.key.join("."))
                };
                let why = format!("it rejects its table: {place}{error}");
                (Outcome::Failed(why), false, None)
            }
            Err(_) => {
                let seconds = limit.as_secs_f64();
                let why = format!("not within {seconds} s: `open` is not answered");
                (Outcome::Failed(why), true, None)
            }
        };
        self.add("opens", (outcome, is_late), began.elapsed());
        built
    }

    fn add(&mut self, what: &str, (outcome, is_late): (Outcome, bool), duration: Duration) {
        let (outcome, remarks) = self.settings.with_remarks(outcome, is_late);
        let row = (what.to_owned(), outcome, duration);
        self.settings.report(&CheckResultRow {
            word: word_of(what),
            title: what.to_owned(),
            outcome: row.1.clone(),
            duration,
            transcript: None,
            remarks,
        });
        self.rows.push(row);
    }
}

impl fmt::Display for ItemReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{}", TableRow(row)))
    }
}

/// Examines a detector that is built from `table`; prints nothing.
pub async fn check_detector(
    place: &ItemFixture,
    table: &Value,
    make: BuildItem<'_, dyn CompletionDetector>,
) -> ItemReport {
    let mut report = ItemReport::new("a detector", place);
    let making = make(table.clone(), &place.context);
    let Some(built) = report.open(making).await else { return report };
    let detector = &*built;
    report.ask("unknown key", unknown_key(make, place, table)).await;
    detector.name().clone_into(&mut report.name);
    report.ask("instructions", async { instructions(detector) }).await;
    report.ask("same twice", same_findings(place, detector)).await;
    report.ask("odd texts", odd_texts(place, detector)).await;
    report.ask("own instructions", own_instructions(place, detector)).await;
    report.ask("events", odd_events(place, detector)).await;
    report.ask("workspace unchanged", async { unchanged(place) }).await;
    report.ask("an end in the middle", interrupted(place, detector)).await;
    for case in &place.cases {
        report.ask(&case.title(), case.check_detector(place, table, make)).await;
    }
    drop(built);
    report.ask("no process is left", place.check_no_processes()).await;
    report
}

async fn same_findings(place: &ItemFixture, detector: &dyn CompletionDetector) -> CheckResult {
    let text = Some("The task is complete.");
    let first = look(place, detector, text, text).await?;
    same(&first, &look(place, detector, text, text).await?)
}

async fn odd_texts(place: &ItemFixture, detector: &dyn CompletionDetector) -> CheckResult {
    for text in odd() {
        look(place, detector, Some(&text), Some(&text)).await?;
        let stripped = detector.strip_claims(&text).await.into_owned();
        let again = detector.strip_claims(&stripped).await.into_owned();
        if again != stripped {
            let start: String = stripped.chars().take(80).collect();
            return Err(format!("a text without claims was stripped again: {start:?}"));
        }
    }
    look(place, detector, None, None).await.map(drop)
}

/// An agent may repeat what it was told.
async fn own_instructions(place: &ItemFixture, detector: &dyn CompletionDetector) -> CheckResult {
    let said = detector.instructions();
    let found = look(place, detector, Some(&said), None).await?;
    match found.claims.first() {
        Some(claim) => {
            Err(format!("to be told how to claim is taken for a claim: {:?}", claim.text))
        }
        None => Ok(()),
    }
}

async fn odd_events(place: &ItemFixture, detector: &dyn CompletionDetector) -> CheckResult {
    if !detector.observes() {
        return Ok(());
    }
    for event in events() {
        detector.observe(&event).await;
    }
    look(place, detector, None, None).await.map(drop)
}

async fn interrupted(place: &ItemFixture, detector: &dyn CompletionDetector) -> CheckResult {
    let slow = look(place, detector, Some("x"), Some("x"));
    drop(tokio::time::timeout(Duration::ZERO, slow).await);
    look(place, detector, None, None).await.map(drop)
}

/// Examines a validator that is built from `table`; prints nothing.
pub async fn check_validator(
    place: &ItemFixture,
    table: &Value,
    make: BuildItem<'_, dyn EvidenceValidator>,
) -> ItemReport {
    let mut report = ItemReport::new("a validator", place);
    let making = make(table.clone(), &place.context);
    let Some(built) = report.open(making).await else { return report };
    let validator = &*built;
    report.ask("unknown key", unknown_key(make, place, table)).await;
    report.name = validator.describe().kind;
    report.ask("demands", async { demands(validator) }).await;
    report.ask("check", same_check(place, validator)).await;
    report.ask("same twice", same_verdict(place, validator)).await;
    report.ask("odd claims", odd_claims(place, validator)).await;
    report.ask("cancel", ends(place, validator)).await;
    report.ask("an end in the middle", given_up(place, validator)).await;
    if validator.is_read_only() || !validator.runs_check() {
        report.ask("workspace unchanged", async { unchanged(place) }).await;
    }
    for case in &place.cases {
        report.ask(&case.title(), case.check_validator(place, table, make)).await;
    }
    drop(built);
    report.ask("no process is left", place.check_no_processes()).await;
    report
}

fn demands(validator: &dyn EvidenceValidator) -> CheckResult {
    same(&validator.describe(), &validator.describe())?;
    said("what it demands", &validator.describe().demands)
}

async fn same_check(place: &ItemFixture, validator: &dyn EvidenceValidator) -> CheckResult {
    let first = validator.check(&place.env).await;
    same(&first, &validator.check(&place.env).await)
}

async fn same_verdict(place: &ItemFixture, validator: &dyn EvidenceValidator) -> CheckResult {
    let text = "The task is complete.";
    let first = decided(place, validator, text).await?;
    same(&first, &decided(place, validator, text).await?)
}

async fn odd_claims(place: &ItemFixture, validator: &dyn EvidenceValidator) -> CheckResult {
    for text in odd() {
        decided(place, validator, &text).await?;
    }
    Ok(())
}

/// Validates, where an error is no decision.
async fn decided(
    place: &ItemFixture,
    validator: &dyn EvidenceValidator,
    text: &str,
) -> Result<Verdict, String> {
    match verdict(place, validator, text, &NeverCancelled).await? {
        Verdict::Error { message } => Err(format!("it neither accepts nor rejects: {message}")),
        verdict => Ok(verdict),
    }
}

async fn ends(place: &ItemFixture, validator: &dyn EvidenceValidator) -> CheckResult {
    let began = Instant::now();
    let verdict = verdict(place, validator, "done", &Cancelled).await?;
    if began.elapsed() >= GRACE {
        let seconds = began.elapsed().as_secs_f64();
        return Err(match verdict {
            Verdict::Error { message } => format!("it took {seconds:.1} s to end: {message}"),
            _ => format!("it took {seconds:.1} s to end"),
        });
    }
    match verdict {
        Verdict::Accepted { summary, .. } => Err(format!("it accepted all the same: {summary}")),
        _ => Ok(()),
    }
}

async fn given_up(place: &ItemFixture, validator: &dyn EvidenceValidator) -> CheckResult {
    let slow = verdict(place, validator, "done", &NeverCancelled);
    drop(tokio::time::timeout(Duration::ZERO, slow).await);
    place.check_no_processes().await
}

pub(crate) fn same<T: PartialEq + Serialize>(first: &T, second: &T) -> CheckResult {
    if first == second {
        return Ok(());
    }
    let text = |value: &T| serde_json::to_string(value).unwrap_or_default();
    Err(format!("the same question has two answers: {}, then {}", text(first), text(second)))
}

fn with_unknown(table: &Value) -> Value {
    let mut table = table.clone();
    if let Some(table) = table.as_object_mut() {
        table.insert(UNKNOWN.to_owned(), json!(1));
    }
    table
}

pub(crate) async fn unknown_key<T: ?Sized>(
    make: BuildItem<'_, T>,
    place: &ItemFixture,
    table: &Value,
) -> CheckResult {
    match make(with_unknown(table), &place.context).await {
        Ok(_) => Err("a key that it does not know is accepted: `deny_unknown_fields`".to_owned()),
        Err(error) if error.unknown_key.as_deref() == Some(UNKNOWN) => Ok(()),
        Err(error) => Err(format!("it does not name the unknown key: {error}")),
    }
}

fn said(what: &str, text: &str) -> CheckResult {
    if text.trim().is_empty() { Err(format!("{what} is empty")) } else { Ok(()) }
}

fn instructions(detector: &dyn CompletionDetector) -> CheckResult {
    let first = detector.instructions();
    if first != detector.instructions() {
        return Err("they are not always the same".to_owned());
    }
    said("how to claim", &first)
}

fn unchanged(place: &ItemFixture) -> CheckResult {
    let files = place.files();
    if files.is_empty() { Ok(()) } else { Err(format!("it wrote {files:?}")) }
}

/// Looks, where warnings say that it could not.
pub(crate) async fn look(
    place: &ItemFixture,
    detector: &dyn CompletionDetector,
    prompt: Option<&str>,
    final_text: Option<&str>,
) -> Result<ralph_orchestrator_contract::Findings, String> {
    let path = place.context.prompt_dir.join("PROMPT.md");
    let prompt_path = prompt.is_some().then_some(path.as_path());
    let given = final_text.map(|_| "# Task\n");
    let input =
        DetectorInput { workspace: place.workspace(), prompt_path, prompt, final_text, given };
    let found = detector.inspect(input).await;
    match found.warnings.first() {
        Some(warning) => Err(warning.clone()),
        None => Ok(found),
    }
}

/// Validates, where whoever rejects has to say why.
pub(crate) async fn verdict(
    place: &ItemFixture,
    validator: &dyn EvidenceValidator,
    text: &str,
    cancel: &dyn CancelSignal,
) -> Result<Verdict, String> {
    let claim = Claim {
        kind: ClaimKind::Complete,
        detector: "conformance".to_owned(),
        source: ClaimSource::Message,
        text: text.to_owned(),
    };
    let context = ValidationContext {
        checkout: &[],
        output: None,
        run: "conformance",
        iteration: 1,
        claim: &claim,
        workspace: place.workspace(),
        tree_since: 1,
        written_in: &BTreeMap::new(),
        evidence_listed: true,
        protected_changes: &[],
        env: &place.env,
    };
    let verdict = validator.validate(context, cancel).await;
    match &verdict {
        Verdict::Rejected { reasons } if reasons.is_empty() => {
            Err("it rejects without a reason".to_owned())
        }
        Verdict::Rejected { reasons } => {
            reasons.iter().try_for_each(|reason| said("a reason", reason))
        }
        Verdict::Error { message } => said("the message of its error", message),
        Verdict::Accepted { summary, .. } => said("the summary of what it accepted", summary),
    }?;
    Ok(verdict)
}

/// Wants the end from the beginning.
struct Cancelled;

#[async_trait]
impl CancelSignal for Cancelled {
    async fn cancelled(&self) -> CancelReason {
        CancelReason::Signal
    }
}

/// Texts that an agent may well write.
pub(crate) fn odd() -> [String; 6] {
    [
        String::new(),
        " \n\r\n\t\u{feff}\u{2028}".to_owned(),
        "\u{1b}[31m\0\u{7f}\u{202e}ünïcödé \u{1f980}".to_owned(),
        "<".repeat(10_000) + &"[".repeat(10_000),
        "x".repeat(HUGE),
        "- [ ] a line\n".repeat(HUGE / 13),
    ]
}

fn events() -> Vec<Event> {
    let usage = Usage { tokens: Some(Tokens::default()), ..Usage::default() };
    vec![
        Event::Session { id: "s".to_owned(), model: None },
        Event::Text { text: String::new() },
        Event::ToolCall { id: "1".to_owned(), name: "bash".to_owned(), input: Value::Null },
        Event::ToolResult { id: "1".to_owned(), is_error: true, text: "x".repeat(HUGE) },
        Event::Usage { usage },
        Event::Unknown,
    ]
}

impl WorkspaceCase {
    /// Returns the name of its check for people.
    #[must_use]
    pub fn title(&self) -> String {
        format!("workspace {}", self.name)
    }

    async fn check_validator(
        &self,
        place: &ItemFixture,
        table: &Value,
        make: BuildItem<'_, dyn EvidenceValidator>,
    ) -> CheckResult {
        let case = self.lay_out(place)?;
        let built = make(table.clone(), &case.context).await.map_err(|error| error.to_string())?;
        let result = verdict(&case, &*built, &self.text, &NeverCancelled).await?;
        match (self.expected, result) {
            (CaseExpectation::Accepted, Verdict::Accepted { .. })
            | (CaseExpectation::Rejected, Verdict::Rejected { .. }) => Ok(()),
            (CaseExpectation::Accepted | CaseExpectation::Rejected, result) => {
                let expected =
                    if self.expected == CaseExpectation::Accepted { "accept" } else { "reject" };
                Err(format!(
                    "expected it to {expected} the claim, got {}",
                    describe_verdict(&result)
                ))
            }
            _ => Err("`expect` of a validator is \"accepted\" or \"rejected\"".to_owned()),
        }
    }

    async fn check_detector(
        &self,
        place: &ItemFixture,
        table: &Value,
        make: BuildItem<'_, dyn CompletionDetector>,
    ) -> CheckResult {
        let case = self.lay_out(place)?;
        let built = make(table.clone(), &case.context).await.map_err(|error| error.to_string())?;
        let found = look(&case, &*built, None, Some(&self.text)).await?;
        match (self.expected, found.claims.first()) {
            (CaseExpectation::Claim, Some(_)) | (CaseExpectation::NoClaim, None) => Ok(()),
            (CaseExpectation::Claim, None) => Err("expected a claim, got none".to_owned()),
            (CaseExpectation::NoClaim, Some(claim)) => {
                Err(format!("expected no claim, got {:?}", claim.text))
            }
            _ => Err("`expect` of a detector is \"claim\" or \"none\"".to_owned()),
        }
    }

    /// Writes the files into a workspace of their own.
    fn lay_out(&self, place: &ItemFixture) -> Result<ItemFixture, String> {
        let mut case = ItemFixture::new();
        case.env.clone_from(&place.env);
        for (name, content) in &self.files {
            let path = Path::new(name);
            if !path.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(format!("`files`: {name} is not a path below the workspace"));
            }
            let path = case.workspace().join(path);
            let folder = path.parent().unwrap_or_else(|| case.workspace());
            std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(&path, content))
                .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        }
        Ok(case)
    }
}

fn describe_verdict(result: &Verdict) -> String {
    match result {
        Verdict::Accepted { summary, .. } => format!("accepted: {summary}"),
        Verdict::Rejected { reasons } => format!("rejected: {}", reasons.join("; ")),
        Verdict::Error { message } => format!("error: {message}"),
    }
}
