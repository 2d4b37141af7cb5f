//! Issues with a label are a backlog, against stand-ins for `gh` and `glab` that have the flags and fields of these.

mod failures;
mod issues;
mod killed;
mod pull_requests;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::backlog::{CLAIM, WORK};
use crate::environment::TestEnvironment;

/// Both hosts: the kind and its program.
const HOSTS: [(&str, &str); 2] = [("github", "gh"), ("gitlab", "glab")];

/// A workspace whose items are the issues of a host.
struct Tracker {
    env: TestEnvironment,
    data: PathBuf,
}

/// An open issue with these labels.
fn issue(number: u64, title: &str, body: &str, labels: &[&str]) -> Value {
    json!({
        "number": number, "title": title, "body": body, "labels": labels, "state": "open",
        "comments": [],
    })
}

impl Tracker {
    /// One whose agent makes what an item wants, and whose check accepts.
    fn new(kind: &str, issues: &[Value], more: &str) -> Self {
        let mut env = TestEnvironment::new();
        env.raw_config(&format!(
            "[run]\ndelay = \"0s\"\nbookkeeping = [\"order\"]\n\
             [backlog]\nkind = \"{kind}\"\nrepository = \"acme/widgets\"\n{more}\
             [agent]\nadapter = \"command\"\nunmetered = true\n\
             [agent.config]\nprogram = [\"@AGENT@\"]\n\
             [[validator]]\nkind = \"command\"\nname = \"made\"\nprogram = [\"sh\", \"-c\", \"ls made-*\"]\n"
        ));
        env.write("PROMPT.md", "# Rules\n\nMake what the item wants.\n");
        env.agent.default_call().script(WORK);
        env.agent.default_call().out(CLAIM);
        let programs = env.root().join("programs");
        fs::create_dir(&programs).unwrap();
        for (_, program) in HOSTS {
            let path = programs.join(program);
            fs::write(&path, include_str!("stand_in.py")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let data = env.root().join("host.json");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        env.var("PATH", &path);
        env.var("HOST_DATA", data.to_str().unwrap());
        env.var("HOST_HELD", env.root().join("held").to_str().unwrap());
        let this = Self { env, data };
        let host = json!({
            "labels": ["ralph"], "issues": issues, "pulls": [], "calls": [], "fail": {}, "hold": null,
        });
        this.store(&host);
        this
    }

    fn store(&self, host: &Value) {
        fs::write(&self.data, serde_json::to_vec(host).unwrap()).unwrap();
    }

    /// What the host has.
    fn host(&self) -> Value {
        serde_json::from_slice(&fs::read(&self.data).unwrap()).unwrap()
    }

    /// Changes what the host has.
    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut host = self.host();
        change(&mut host);
        self.store(&host);
    }

    fn issue(&self, number: u64) -> Value {
        let host = self.host();
        let mut issues = host["issues"].as_array().unwrap().iter();
        issues.find(|issue| issue["number"] == number).unwrap().clone()
    }

    fn labels(&self, number: u64) -> Vec<String> {
        serde_json::from_value(self.issue(number)["labels"].clone()).unwrap()
    }

    fn comments(&self, number: u64) -> Vec<String> {
        let issue = self.issue(number);
        let comments = issue["comments"].as_array().unwrap().iter();
        comments.map(|comment| comment["body"].as_str().unwrap().to_owned()).collect()
    }

    /// The command lines so far, without the program.
    fn calls(&self) -> Vec<Vec<String>> {
        let mut calls: Vec<Vec<String>> =
            serde_json::from_value(self.host()["calls"].clone()).unwrap();
        calls.iter_mut().for_each(|call| drop(call.remove(0)));
        calls
    }

    /// What the agent was given in its call with this number.
    fn prompt(&self, call: usize) -> String {
        String::from_utf8(self.env.agent.stdin(call)).unwrap()
    }

    /// The ids of the items in the order in which agents worked on them.
    fn worked(&self) -> Vec<String> {
        let order = fs::read_to_string(self.env.path("order")).unwrap_or_default();
        order.lines().map(str::to_owned).collect()
    }
}
