//! The live line at the bottom of a terminal: iteration, time, cost, current activity.

use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{Tokens, Usage, Usd};
use ralph_orchestrator_machine::{Limit, LimitChanges, LimitValue};
use ralph_orchestrator_story::words::{short_tokens, short_usd};
use ralph_orchestrator_text::{clock, columns, fit, one_line, short_duration};

/// Columns reserved for the activity, by level of detail.
const ROOM: [usize; 5] = [30, 30, 24, 16, 8];
/// One after the other, one a second.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Longer than any line.
const LONGEST: usize = 400;

/// What the run is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LiveActivity {
    /// Nothing that takes time.
    Nothing,
    /// The agent works; its last words or its last tool call.
    Working(String),
    /// The workspace is scanned.
    Scanning,
    /// This command prepares the workspace.
    SettingUp(String),
    /// These validators work.
    Validating(String),
    /// It is looked for what made the checks green.
    Explaining,
    /// Nothing happens until then, for this reason.
    Waiting(Instant, String),
    /// The same between two iterations.
    Pausing(Instant),
    /// This user has paused the run, whose time stands still.
    Paused(String),
}

/// The run as the line shows it.
#[derive(Debug)]
pub(super) struct LiveLine {
    pub(super) activity: LiveActivity,
    /// When that began.
    since: Instant,
    /// When the line began.
    began: Instant,
    pub(super) iteration: u64,
    pub(super) max_iterations: Option<u64>,
    /// Runtime of the run at the time `runtime_at`.
    runtime: Duration,
    runtime_at: Instant,
    pub(super) max_runtime_ms: Option<u64>,
    /// What iterations that are over have cost.
    pub(super) charged: Usd,
    pub(super) max_cost: Option<Usd>,
    pub(super) cost_reported: bool,
    /// What iterations that are over have used.
    pub(super) tokens: Tokens,
    /// What the running iteration has used.
    pub(super) usage: Usage,
    /// How full the context is, in words.
    pub(super) context: Option<String>,
}

impl LiveLine {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            activity: LiveActivity::Nothing,
            since: now,
            began: now,
            iteration: 0,
            max_iterations: None,
            runtime: Duration::ZERO,
            runtime_at: now,
            max_runtime_ms: None,
            charged: Usd::ZERO,
            max_cost: None,
            cost_reported: false,
            tokens: Tokens::default(),
            usage: Usage::default(),
            context: None,
        }
    }

    /// Begins another activity.
    pub(super) fn begin(&mut self, activity: LiveActivity) {
        if matches!(self.activity, LiveActivity::Paused(_)) {
            // The time of the pause is none of the run's.
            self.runtime_at += self.since.elapsed();
        }
        (self.activity, self.since) = (activity, Instant::now());
    }

    /// The runtime of the run is known for now.
    pub(super) fn set_runtime(&mut self, runtime_ms: u64) {
        (self.runtime, self.runtime_at) = (Duration::from_millis(runtime_ms), Instant::now());
    }

    /// A person has set limits.
    pub(super) fn set_limits(&mut self, changes: &LimitChanges) {
        for (limit, max) in changes.all() {
            let max = max.map(LimitValue::amount);
            match limit {
                Limit::Iterations => self.max_iterations = max,
                Limit::Runtime => self.max_runtime_ms = max,
                Limit::Cost => self.max_cost = max.map(Usd::from_nanos),
                // There is no room for the others.
                _ => {}
            }
        }
    }

    /// The line, in less than `width` columns; `None` without an activity. The last column stays free:
    /// some terminals begin a new line with it.
    pub(super) fn line(&self, width: usize, now: Instant) -> Option<String> {
        let spinner = self.spinner(now);
        let most = width.saturating_sub(1 + columns(&spinner));
        self.facts_and_activity(most, now).map(|line| format!("{spinner}{line}"))
    }

    /// What moves as long as anything goes on.
    fn spinner(&self, now: Instant) -> String {
        if matches!(self.activity, LiveActivity::Paused(_)) {
            return "‖ ".to_owned();
        }
        let seconds = now.saturating_duration_since(self.began).as_secs();
        let at = usize::try_from(seconds % 10).unwrap_or_default();
        format!("{} ", SPINNER.get(at).copied().unwrap_or_default())
    }

    fn facts_and_activity(&self, most: usize, now: Instant) -> Option<String> {
        let activity = one_line(&self.activity_text(now)?, LONGEST);
        for (level, room) in ROOM.into_iter().enumerate() {
            let facts = self.facts(level, now);
            let used = columns(&facts) + 2;
            if used + room.min(columns(&activity)) <= most {
                let activity = fit(&activity, most.saturating_sub(used));
                return Some(format!("{facts}  {activity}").trim_end().to_owned());
            }
        }
        Some(fit(&self.facts(ROOM.len(), now), most))
    }

    fn activity_text(&self, now: Instant) -> Option<String> {
        let left = |until: &Instant| clock(until.saturating_duration_since(now) + ALMOST_A_SECOND);
        Some(match &self.activity {
            LiveActivity::Nothing => return None,
            LiveActivity::Working(what) => what.clone(),
            LiveActivity::Scanning => "scanning the workspace".into(),
            LiveActivity::SettingUp(command) => {
                format!("setup ({}): {command}", clock(now.saturating_duration_since(self.since)))
            }
            LiveActivity::Validating(names) => {
                format!(
                    "validating ({}): {names}",
                    clock(now.saturating_duration_since(self.since))
                )
            }
            LiveActivity::Explaining => {
                let time = clock(now.saturating_duration_since(self.since));
                format!("accepted; looking for what made the checks green ({time})")
            }
            LiveActivity::Waiting(until, reason) if *until <= self.since => reason.clone(),
            LiveActivity::Waiting(until, reason) => format!("waiting {}: {reason}", left(until)),
            LiveActivity::Pausing(until) => format!("next iteration in {}", left(until)),
            LiveActivity::Paused(user) => {
                let time = clock(now.saturating_duration_since(self.since));
                format!("paused by {user} ({time})")
            }
        })
    }

    /// Iteration, time and cost against their limits: the higher the level, the shorter.
    fn facts(&self, level: usize, now: Instant) -> String {
        let mut facts = Vec::new();
        if self.iteration > 0 {
            let max = self.max_iterations.map(|max| format!("/{max}")).unwrap_or_default();
            let name = if level < 3 { "iteration " } else { "" };
            let own = match self.activity {
                LiveActivity::Working(_) if level < 2 => {
                    format!(", {}", clock(now.saturating_duration_since(self.since)))
                }
                _ => String::new(),
            };
            facts.push(format!("{name}{}{max}{own}", self.iteration));
        }
        let of = if level < 4 { " of " } else { "/" };
        let until = if matches!(self.activity, LiveActivity::Paused(_)) { self.since } else { now };
        let runtime = clock(self.runtime + until.saturating_duration_since(self.runtime_at));
        let max = self.max_runtime_ms.map(|max| format!("{of}{}", short_duration(max)));
        facts.push(format!("{runtime}{}", max.filter(|_| level < 5).unwrap_or_default()));
        let cost = self.charged + self.usage.cost.unwrap_or_default();
        if self.cost_reported || self.usage.cost.is_some() || cost > Usd::ZERO {
            let about = if self.usage.estimated && level < 4 { "about " } else { "" };
            let max = self.max_cost.map(|max| format!("{of}{}", short_usd(max)));
            facts.push(format!("{about}{cost}{}", max.filter(|_| level < 5).unwrap_or_default()));
        }
        if level < 2 {
            facts.extend(self.context.as_ref().map(|context| format!("context {context}")));
        }
        let tokens = self.tokens + self.usage.tokens.unwrap_or_default();
        if level == 0 && tokens.total() > 0 {
            facts.push(short_tokens(tokens));
        }
        facts.join("  ")
    }
}

/// A countdown says `0:01` until its end, and never `0:00`.
const ALMOST_A_SECOND: Duration = Duration::from_millis(999);

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> (LiveLine, Instant) {
        let now = Instant::now();
        let mut live = LiveLine::new(now);
        (live.iteration, live.max_iterations) = (3, Some(100));
        (live.max_runtime_ms, live.max_cost) = (Some(4 * 3_600_000), Usd::from_dollars(50.0));
        (live.charged, live.cost_reported) = (Usd::from_dollars(0.42).unwrap(), true);
        live.context = Some("41 %".into());
        live.activity =
            LiveActivity::Working("[Bash] cargo test --workspace --all-features -- --quiet".into());
        (live, now + Duration::from_secs(723))
    }

    #[test]
    fn the_line_fits_every_width() {
        let (mut live, now) = live();
        for width in 20..250 {
            let line = live.line(width, now).unwrap();
            assert!(columns(&line) < width, "{line:?} at {width}");
        }
        live.activity = LiveActivity::Working("日本語".repeat(100));
        for width in 20..250 {
            assert!(columns(&live.line(width, now).unwrap()) < width);
        }
    }

    #[test]
    fn the_wider_the_terminal_the_more_it_says() {
        let (mut live, now) = live();
        live.tokens =
            Tokens { input: 17_000, output: 30_000, cache_read: 5_900_000, cache_write: 0 };
        let tokens = Tokens { output: 1_200, ..Tokens::default() };
        live.usage = Usage { tokens: Some(tokens), ..Usage::default() };
        let at = |width| live.line(width, now).unwrap();
        assert_eq!(at(40), "⠸ 3/100  12:03/4h  $0.42/$50  [Bash] c…");
        assert_eq!(
            at(80),
            "⠸ iteration 3/100  12:03 of 4h  $0.42 of $50  [Bash] cargo test --workspace --…"
        );
        assert_eq!(
            at(120),
            "⠸ iteration 3/100, 12:03  12:03 of 4h  $0.42 of $50  context 41 %  \
             [Bash] cargo test --workspace --all-features -- --q…"
        );
        assert_eq!(
            at(200),
            "⠸ iteration 3/100, 12:03  12:03 of 4h  $0.42 of $50  context 41 %  in 17.0k, out 31.2k, \
             cache read 5.9M  [Bash] cargo test --workspace --all-features -- --quiet"
        );
        assert_eq!(at(22), "⠸ 3/100  12:03  $0.42");
    }

    #[test]
    fn it_moves_every_second_but_in_a_pause() {
        let (mut live, _) = live();
        let frame = |live: &LiveLine, seconds: u64| {
            let line = live.line(80, live.began + Duration::from_secs(seconds)).unwrap();
            line.chars().next().unwrap()
        };
        let frames: Vec<char> = (0..10).map(|seconds| frame(&live, seconds)).collect();
        assert_eq!(frames.iter().collect::<std::collections::BTreeSet<_>>().len(), 10);
        assert_eq!(frame(&live, 10), frames[0]);
        live.begin(LiveActivity::Paused("me".to_owned()));
        assert_eq!((frame(&live, 1), frame(&live, 2)), ('‖', '‖'));
    }

    #[test]
    fn limits_that_people_set_are_shown() {
        let (mut live, now) = live();
        let max_cost = Usd::from_dollars(80.0).map(LimitValue::Money);
        live.set_limits(&LimitChanges::default().with(Limit::Cost, max_cost));
        assert!(live.line(80, now).unwrap().contains("of 4h  $0.42 of $80"));
        live.set_limits(&LimitChanges::default().with(Limit::Runtime, None));
        assert!(live.line(80, now).unwrap().contains("12:03  $0.42 of $80"));
    }

    #[test]
    fn waits_count_down_and_nothing_shows_nothing() {
        let (mut live, now) = live();
        live.activity =
            LiveActivity::Waiting(now + Duration::from_secs(3599), "limit reached".into());
        assert!(live.line(120, now).unwrap().ends_with("waiting 59:59: limit reached"));
        let later = now + Duration::from_millis(3_598_500);
        assert!(live.line(120, later).unwrap().ends_with("waiting 0:01: limit reached"));
        live.activity = LiveActivity::Pausing(now + Duration::from_secs(2));
        assert!(live.line(80, now).unwrap().ends_with("next iteration in 0:02"));
        live.activity = LiveActivity::Nothing;
        assert_eq!(live.line(80, now), None);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let now = Instant::now();
        let mut live = LiveLine::new(now);
        live.begin(LiveActivity::Validating("tests".into()));
        assert_eq!(live.line(80, now).unwrap(), "⠋ 0:00  validating (0:00): tests");
    }
}
