//! Every version reads what the first one wrote. `golden/states.tar.gz` has the states of five runs of a user (completed
//! after a rejection, stopped by a limit, waiting for an answer, a backlog, and one with guidance, a limit and a pause),
//! `golden/job.tar.gz` a job of two columns.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::environment::TestEnvironment;
use crate::serve::Server;

/// The states of a user's runs, the last record of each, and how it is known.
const STATES: [(&str, &str); 5] = [
    ("asks", "stopped"),
    ("backlog", "completed"),
    ("completed", "completed"),
    ("controlled", "completed"),
    ("stopped", "stopped"),
];

fn unpack(archive: &str, into: &Path) {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/golden").join(archive);
    std::fs::create_dir_all(into).unwrap();
    let status = Command::new("tar").arg("-C").arg(into).arg("-xzf").arg(archive).status().unwrap();
    assert!(status.success(), "{status}");
}

fn snapshot(env: &TestEnvironment, name: &str, value: &Value) {
    let text = serde_json::to_string_pretty(value).unwrap();
    let text = text.replace(&env.root().display().to_string(), "[root]");
    insta::assert_snapshot!(format!("golden_{name}"), text);
}

#[test]
fn the_states_of_the_first_version_are_read() {
    let env = TestEnvironment::new();
    unpack("states.tar.gz", &env.root().join("home/.local/state"));
    let server = Server::start(&env, &[]);
    let listed = server.get("/api/runs").expect(200).json();
    snapshot(&env, "runs", &listed["runs"]);
    for (name, last) in STATES {
        let is_this = |run: &&Value| run["workspace"] == format!("/home/user/{name}");
        let runs = listed["runs"].as_array().unwrap();
        let run = runs.iter().find(is_this).unwrap_or_else(|| panic!("no {name}: {listed}"));
        let path = format!("/api/runs/{}", run["run"].as_str().unwrap());
        let records = server.follow(&format!("{path}/events"), &[]).until(last);
        snapshot(
            &env,
            name,
            &json!({
                "status": server.get(&path).expect(200).json(),
                "records": records.into_iter().map(|(_, event)| event).collect::<Vec<_>>(),
                "transcript": server.get(&format!("{path}/iterations/1/transcript")).expect(200).json(),
            }),
        );
    }
}

#[test]
fn the_job_of_the_first_version_is_reported() {
    let env = TestEnvironment::new();
    unpack("job.tar.gz", &env.workspace());
    for (name, command) in [
        ("report", &["bench", "report", "job"][..]),
        ("report_json", &["bench", "report", "job", "--json"]),
        ("status", &["bench", "status", "job"]),
        ("compare", &["bench", "compare", "job", "agent", "oracle"]),
    ] {
        insta::assert_snapshot!(format!("golden_job_{name}"), env.ralph(command).expect(0).stdout);
    }
}
