//! Trials that fail since the provider refuses.

use std::fs;

use serde_json::Value;

use super::{add_script, add_task, append, environment, metered, result, trial_files};

#[test]
fn what_repeats_trials_that_the_provider_refused_is_said_at_their_end() {
    let env = environment(&[]);
    let refusal = "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":401,\
                   \"result\":\"API Error: 401\",\"total_cost_usd\":0,\"usage\":{\"input_tokens\":0,\"output_tokens\":0}}";
    let claim = result("<promise>COMPLETE</promise>", "0.1");
    let script = format!(
        "if [ -e \"$shared/down\" ]; then echo '{refusal}'; exit 1; fi\necho hello > out.txt\n{claim}"
    );
    add_script(&env, "refused", &script);
    append(&env, &metered("refused"));
    ["one", "two"].iter().for_each(|task| add_task(&env, task, 5));
    env.write("shared/down", "");
    let job = env.path("job");
    let command = format!("`ralph-orchestrator bench resume {} --retry provider`", job.display());
    env.ralph(&["bench", "run", "--agents", "refused", "--out", "job"]).expect(1).says(&command);
    let resume = ["bench", "resume", "job"];
    env.ralph(&resume).expect(1).says("nothing is left to do").says(&command);
    let last = env.ralph(&[&resume[..], &["--json"]].concat()).expect(1).events().pop().unwrap();
    assert_eq!(format!("`{}`", last["retry"].as_str().unwrap()), command);
    fs::remove_file(env.path("shared/down")).unwrap();
    let ended = env.ralph(&[&resume[..], &["--retry", "provider"]].concat()).expect(0);
    assert!(!ended.stderr.contains("--retry"), "{}", ended.stderr);
    let trials = trial_files(&env, "job");
    let judged = trials.iter().filter(|trial| trial["rewards"]["reward"] == 1.0).count();
    assert_eq!((trials.len(), judged), (4, 2), "{trials:#?}");
    let causes: Vec<&Value> = trials.iter().map(|trial| &trial["fault"]["cause"]).collect();
    assert_eq!(causes.iter().filter(|cause| **cause == "provider").count(), 2);
}
