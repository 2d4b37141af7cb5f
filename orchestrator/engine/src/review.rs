//! Reviews: once all other required validators accept, an agent reads the work in a checkout of its own, and its answer is the
//! verdict of a validator. Nothing of that checkout is seen by a check, or kept.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use data_encoding::HEXLOWER;
use ralph_orchestrator_checkout::{PreparedCheckout, Visibility};
use ralph_orchestrator_contract::{
    Agent, Budget, ErrorClass, Iteration, ReviewMaterial, Reviewer, Verdict, survivors_complaint,
};
use ralph_orchestrator_machine::{ReviewEnd, ValidatorVerdict, millis};
use ralph_orchestrator_workspace::TreeSnapshot;
use tokio::sync::mpsc;

use super::blocking::blocking;
use super::error::EngineError;
use super::execution::Execution;
use super::prompt::with_part;
use super::review_agents::{PendingInput, ReviewAgent, ReviewSink, Reviews};
use super::scratch::ScratchDir;
use super::session::Session;
use super::validation_policy::ConfiguredValidator;
use super::validation_task::{ValidationTask, accept_together};

/// Why there is no review where checks run in the workspace.
const NO_CHECKOUT: &str =
    "a review reads the work in a checkout, and there is none here: see `validation.where`";
/// Why there is none where nobody has an agent to review.
const NO_AGENT: &str = "the agent that is to review is not in [agents] any more";

impl Session {
    /// Returns what reviews of the work need, if there are to be any. What they use is sent to `inputs`.
    pub(super) async fn reviews(
        &mut self,
        inputs: mpsc::Sender<PendingInput>,
    ) -> Result<Option<Reviews>, EngineError> {
        let policy = &self.context.policy;
        let maker = self.context.read_only_agents.clone();
        let Some(maker) = maker.filter(|_| policy.reviews().next().is_some()) else {
            return Ok(None);
        };
        let (state, pool) = (&self.journal.state, &self.agent.agents);
        let limits = &state.limits;
        let of_run = Budget {
            cost: limits.max_cost_usd.map(|most| most.saturating_sub(state.cost())),
            tokens: limits.max_tokens.map(|most| most.saturating_sub(state.tokens().total())),
            time: None,
        };
        let prompt = self.prompts.source.last_text().unwrap_or_default();
        let part = self.context.part.as_ref().map(|part| (part.description)(&prompt));
        let prompt = with_part(prompt, part.as_deref().filter(|part| !part.is_empty()));
        let agents = pool.reviewers.iter().map(|(name, agent)| {
            let (configured, env) = (agent.configured.clone(), agent.env.clone());
            (name.clone(), ReviewAgent { configured, env })
        });
        let (left, refusal) = match &mut self.budget {
            Some(budget) => budget.find_left(of_run)?,
            None => (of_run, None),
        };
        // A review may say something else each time that it is asked.
        let is_same_task = !state.validation.task_changed_since_rejection;
        let standing = state.validation.rejection.clone().filter(|_| is_same_task);
        Ok(Some(Reviews {
            maker,
            agents: agents.collect(),
            build: pool.build.clone(),
            redactor: self.context.redactor.clone(),
            task: policy.strip_claims(&prompt).await,
            left,
            refusal,
            standing,
            reservation: limits.first_reservation.max(state.budget.largest_charge),
            inputs,
        }))
    }
}

impl ValidationTask {
    /// Returns the verdicts with those of reviews, if all that is required accepts so far; `None` if it was cancelled. While the
    /// agent runs, its work is not reviewed yet.
    pub(super) async fn review(
        &mut self,
        counted: &Arc<TreeSnapshot>,
        mut verdicts: Vec<ValidatorVerdict>,
    ) -> Result<Option<Vec<ValidatorVerdict>>, EngineError> {
        let Some(mut reviews) = self.reviews.take() else { return Ok(Some(verdicts)) };
        let policy = Arc::clone(&self.policy);
        for check in policy.reviews() {
            if !accept_together(&verdicts) || !self.is_settled() {
                break;
            }
            let started = Instant::now();
            let reviewed = match reviews.find_standing(&check.info.name, &self.tree) {
                Some(verdict) => Some(verdict),
                None => self.review_once(check, &mut reviews, (counted, &verdicts)).await?,
            };
            let Some(mut verdict) = reviewed else { return Ok(None) };
            let Some(now) = self.snapshot().await? else { return Ok(None) };
            let changed = self.changes.as_mut().and_then(|changes| changes.observe(check, now));
            verdict = changed.unwrap_or(verdict);
            let duration_ms = millis(started.elapsed());
            verdicts.push(ValidatorVerdict::new(&check.info, verdict, duration_ms));
        }
        Ok(Some(verdicts))
    }

    /// Has an agent review the work; `None` if it was cancelled.
    async fn review_once(
        &self,
        check: &ConfiguredValidator,
        reviews: &mut Reviews,
        (counted, verdicts): (&Arc<TreeSnapshot>, &[ValidatorVerdict]),
    ) -> Result<Option<Verdict>, EngineError> {
        let Some(reviewer) = check.validator.reviewer() else {
            return Ok(Some(no_review(NO_AGENT)));
        };
        let name = reviewer.agent();
        let Some(agent) = reviews.agents.get(name).cloned() else {
            return Ok(Some(no_review(NO_AGENT)));
        };
        if let Some(refusal) = &reviews.refusal {
            return Ok(Some(no_review(refusal)));
        }
        if let Some(limit) = reviews.find_exceeded() {
            return Ok(Some(no_review(&format!("nothing is left of {}", limit.cause()))));
        }
        let prepared = self.prepare_checkout(counted, Visibility::Cold).await?;
        let Some(prepared) = prepared else { return Ok(Some(no_review(NO_CHECKOUT))) };
        let prompt = self.review_prompt(reviewer, reviews, (counted, verdicts)).await?;
        if !reviews.begin(&check.info.name, name, &agent.configured).await {
            return Ok(None);
        }
        let (verdict, sink) =
            self.run_reviewer(check, reviewer, (reviews, &agent), (prompt, &prepared)).await?;
        let usage = sink.usage();
        let can = agent.configured.description.capabilities;
        let is_paid = agent.configured.is_metered() && !can.free;
        let end = ReviewEnd {
            validator: check.info.name.clone(),
            agent: name.to_owned(),
            usage,
            is_cost_missing: is_paid && usage.cost.is_none(),
        };
        Ok(if reviews.end(end).await { verdict } else { None })
    }

    /// Runs the agent in this checkout until it ends or has to; the verdict is `None` if the validation was cancelled.
    async fn run_reviewer(
        &self,
        check: &ConfiguredValidator,
        reviewer: &dyn Reviewer,
        (reviews, agent): (&Reviews, &ReviewAgent),
        (prompt, prepared): (String, &PreparedCheckout),
    ) -> Result<(Option<Verdict>, ReviewSink), EngineError> {
        let execution = Execution::default();
        let budget = reviews.budget(check.timeout);
        let sink = ReviewSink::new(&agent.configured, execution.cancel.clone(), budget);
        let mut scratch = ScratchDir::default();
        let folder = scratch.fresh(&self.run)?.to_owned();
        let table = &agent.configured.config;
        let (adapter, config) = (table.adapter.as_str(), table.config.clone());
        let built = reviews.maker.build(adapter, config, &reviews.build, &prepared.overlays).await;
        let built = match built {
            Ok(built) => built,
            Err(message) => return Ok((Some(no_review(&message)), sink)),
        };
        let task = Iteration {
            run: self.run.clone(),
            number: self.iteration,
            prompt: prompt.into_bytes(),
            workspace: self.workspace.clone(),
            env: with_tmpdir(&agent.env, &folder),
            budget,
            scratch: folder,
        };
        let until_ms = self.clock.runtime_ms().saturating_add(millis(check.timeout));
        let end = self.wait_end(until_ms, check.timeout);
        let work = Box::pin(run_agent(&*built, reviewer, task, &sink));
        let verdict = execution.wait(work, end).await;
        Ok((verdict, sink))
    }

    /// Returns what the agent is asked.
    async fn review_prompt(
        &self,
        reviewer: &dyn Reviewer,
        reviews: &Reviews,
        (counted, verdicts): (&Arc<TreeSnapshot>, &[ValidatorVerdict]),
    ) -> Result<String, EngineError> {
        let mut difference = String::new();
        if let Some(known) = &self.checkout {
            let (start, is_work) = (Arc::clone(&known.checkout), self.work_test(counted));
            let work = blocking(move || start.find_changed_work(&is_work)).await??;
            difference = work.describe_difference();
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| EngineError::Internal(format!("no random bytes: {error}")))?;
        let boundary = HEXLOWER.encode(&random);
        let checks = self.outputs.describe(verdicts);
        let material = ReviewMaterial {
            task: &reviews.task,
            difference: &reviews.redactor.text(&difference),
            checks: &reviews.redactor.text(&checks),
            boundary: &boundary,
        };
        Ok(reviewer.prompt(&material))
    }
}

/// Runs the agent, and takes its final message, and nothing else, for its verdict.
async fn run_agent(
    agent: &dyn Agent,
    reviewer: &dyn Reviewer,
    task: Iteration,
    sink: &ReviewSink,
) -> Verdict {
    match agent.run(task, sink).await {
        Ok(report) => {
            sink.add(report.usage);
            match survivors_complaint(&report.survived) {
                Some(complaint) => no_review(&complaint),
                None => reviewer.read_verdict(report.final_text.as_deref().unwrap_or_default()),
            }
        }
        Err(error) => {
            sink.add(error.report.usage);
            match sink.exceeded().filter(|_| error.class == ErrorClass::Cancelled) {
                Some(limit) => no_review(&format!("{} was reached", limit.cause())),
                None => no_review(&format!("{}: {}", error.class.word(), error.message)),
            }
        }
    }
}

/// An error is never an acceptance.
fn no_review(why: &str) -> Verdict {
    Verdict::Error { message: format!("the work was not reviewed: {why}") }
}

fn with_tmpdir(env: &BTreeMap<String, String>, folder: &Path) -> BTreeMap<String, String> {
    let mut env = env.clone();
    env.insert("TMPDIR".to_owned(), folder.display().to_string());
    env
}
