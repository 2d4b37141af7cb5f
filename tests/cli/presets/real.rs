//! Each preset with the real `claude`, whose model is on loopback.

use std::path::Path;

use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use serde_json::json;

use crate::environment::{TestEnvironment, of_run};
use crate::real::Real;

const CHECK: &str =
    "[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n";

/// A session that runs a command and ends with a text.
fn session(script: Script, command: &str, text: &str) -> Script {
    script
        .then(Turn::tool("Bash", &json!({"command": command, "description": "do the work"})))
        .then(Turn::text(text))
}

fn environment(model: &ModelServer, preset: &str, tables: &str) -> TestEnvironment {
    let env = Real::ClaudeCli.environment(model, tables);
    env.write("ralph.toml", format!("preset = \"{preset}\"\n{}", env.read("ralph.toml")));
    env
}

/// The command completes the work in so many sessions, and leaves no process.
fn completes(env: &TestEnvironment, model: &ModelServer, command: &[&str], sessions: usize) {
    env.ralph(command).expect(0);
    // Each session asks twice: with the prompt, and with what the command printed.
    assert_eq!(model.main_requests().len(), 2 * sessions);
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn ralph() {
    let work = "touch done && mkdir validation-evidence && for i in 1 2 3; do \
                echo \"check $i passed\" > validation-evidence/$i.txt; done && \
                echo '- [x] TASK_COMPLETE' >> PROMPT.md";
    let model = ModelServer::scripted(session(Script::new(), work, "It is done."));
    let env = environment(&model, "ralph", "");
    completes(&env, &model, &["run"], 1);
    assert_eq!(env.status()["latch"]["claim"]["detector"], "marker");
}

#[test]
fn pure_loop() {
    let claim = "<promise>COMPLETE: the file is there</promise>";
    let script = session(Script::new(), "echo begun > notes", "More is to do.");
    let model = ModelServer::scripted(session(script, "touch done", claim));
    let env = environment(&model, "pure-loop", "");
    env.ralph(&["new", "Make a file called done", "--test-command", "test -e done"]).expect(0);
    completes(&env, &model, &["go", "1"], 2);
    let progress = env.read(".ralph/ralph-1/progress.md");
    assert_eq!(progress.matches("\n## Iteration ").count(), 2, "{progress}");
}

#[test]
fn ada() {
    let list = json!({"project_name": "p", "project_path": ".", "features": [{
        "id": "a", "name": "A", "description": "Make done.", "status": "pending", "priority": 1,
        "acceptance_criteria": ["done exists"], "depends_on": []
    }]});
    let prepare = format!(
        "echo '{list}' > feature-list.json && printf '#!/bin/sh\\n' > init.sh && chmod +x init.sh && \
         git add -A && git -c user.name=a -c user.email=a@b commit -qm prepared"
    );
    let script = session(Script::new(), &prepare, "The project is prepared.");
    let claim = "<promise>COMPLETE: the file is there</promise>";
    let model = ModelServer::scripted(session(script, "touch done", claim));
    let env = environment(&model, "ada", CHECK);
    let made = env.program(Path::new("git")).args(["init", "-q"]).status().unwrap();
    assert!(made.success());
    completes(&env, &model, &["run"], 2);
    assert!(env.read("feature-list.json").contains("completed"));
    assert!(env.read("claude-progress.txt").contains("Action: feature_completed\nFeature: a\n"));
}

#[test]
fn autocoder() {
    let work = "touch done && sed -i 's/\"passes\": false/\"passes\": true/' feature_list.json";
    let model = ModelServer::scripted(session(Script::new(), work, "The feature passes."));
    let list = "[backlog]\nkind = \"json\"\npath = \"feature_list.json\"\n";
    let env = environment(&model, "autocoder", &format!("{list}{CHECK}"));
    env.write("prompts/coding_prompt.md", "Do the feature that follows.\n");
    env.write("prompts/initializer_prompt.md", "Write the features down.\n");
    env.write(
        "feature_list.json",
        "[\n  {\"name\": \"A\", \"description\": \"Make done.\", \"steps\": [\"look\"], \"passes\": false}\n]\n",
    );
    completes(&env, &model, &["run"], 1);
    assert!(env.read("feature_list.json").contains("\"passes\": true"));
}
