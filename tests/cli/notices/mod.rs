//! `[[notify]]`: who is sent what of a run, and that the run never waits for it.

pub(crate) mod receiver;

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::environment::{TestEnvironment, eventually};
use receiver::{Answer, Receiver, closed_port};

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";
const OK: Answer = Answer::Status("200 OK");
const FAILS: Answer = Answer::Status("500 Internal Server Error");
const ALL: &str = "on = [\"started\", \"resumed\", \"progress\", \"rejected\", \"completed\", \
                   \"needs_human\", \"stopped\"]\ncooldown = \"0s\"\n";

/// An agent that does the work in its first call, and a receiver.
fn notified(kind: &str, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.config(&format!("\n[[notify]]\nkind = \"{kind}\"\n{more}\n"));
    env.agent.default_call().script("touch done\n").out(DONE);
    env
}

fn webhook(receiver: &Receiver, more: &str) -> TestEnvironment {
    notified("webhook", &format!("url = \"{}\"\n{more}", receiver.url))
}

/// The number of the record of this kind.
fn seq(env: &TestEnvironment, kind: &str) -> u64 {
    env.records(kind)[0]["seq"].as_u64().unwrap()
}

fn run_id(env: &TestEnvironment) -> String {
    env.status()["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_webhook_is_signed_and_its_id_is_that_of_the_record() {
    let receiver = Receiver::new(&[OK]);
    let mut env = webhook(&receiver, "secret_env = \"HOOK_SECRET\"\ntoken_env = \"HOOK_TOKEN\"\n");
    env.var("HOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    env.var("HOOK_TOKEN", "token-of-the-receiver");
    env.run().expect(0);
    let request = receiver.next();
    let id = format!("{}:{}", run_id(&env), seq(&env, "completed"));
    assert_eq!(request.header("webhook-id"), Some(id.as_str()));
    assert_eq!(request.header("authorization"), Some("Bearer token-of-the-receiver"));
    let timestamp = request.header("webhook-timestamp").unwrap();
    // Computed by another program.
    let script = "import base64,hashlib,hmac,sys\nkey=base64.b64decode('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')\n\
                  print('v1,'+base64.b64encode(hmac.new(key,sys.argv[1].encode(),hashlib.sha256).digest()).decode())";
    let signed = format!("{id}.{timestamp}.{}", request.body);
    let output = Command::new("python3").args(["-c", script, &signed]).output().unwrap();
    let expected = String::from_utf8(output.stdout).unwrap();
    assert_eq!(request.header("webhook-signature"), Some(expected.trim()));
    let body = request.json();
    assert_eq!(body["type"], "run.completed");
    assert_eq!(body["data"]["project"], "w");
    assert_eq!(body["data"]["iteration"], 1);
    assert!(body["data"]["message"].as_str().unwrap().starts_with("proved done after 1 iteration"));
    assert!(receiver.left().is_empty());
    env.run().expect(0);
    assert!(receiver.left().is_empty(), "a completed run is sent once");
}

#[test]
fn a_receiver_that_fails_gets_the_same_notice_again() {
    let receiver = Receiver::new(&[FAILS, Answer::Close, OK]);
    let env = webhook(&receiver, ALL);
    // The notice of the start is sent again while the agent works.
    let go = env.fifo("go");
    env.agent.default_call().script(&format!("read x < {}\ntouch done\n", go.display())).out(DONE);
    let mut running = env.start(&["run"]);
    running.says("notify webhook: HTTP 500; it is sent again later");
    running.says("notify webhook: delivered again");
    fs::write(&go, "go\n").unwrap();
    running.wait().expect(0);
    let requests = receiver.left();
    let ids: Vec<_> =
        requests.iter().map(|request| request.header("webhook-id").unwrap()).collect();
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ids[1], ids[2]);
    let topics: Vec<_> = requests.iter().map(|request| request.json()["type"].clone()).collect();
    assert_eq!(topics[2..], ["run.started", "run.progress", "run.completed"]);
    for request in &requests[2..] {
        let id = request.header("webhook-id").unwrap();
        assert_eq!(id, format!("{}:{}", run_id(&env), id.rsplit(':').next().unwrap()));
    }
}

#[test]
fn a_receiver_that_is_not_there_is_notified_by_the_next_start() {
    let port = closed_port();
    let env = notified("webhook", &format!("url = \"http://127.0.0.1:{port}/hook\"\n{ALL}"));
    let ended = env.run().expect(0);
    ended.says("completed: 1 iteration").says("notify webhook: 3 notices not delivered yet");
    let receiver = Receiver::at(port, &[OK]);
    env.run().expect(0).says("already completed");
    let kinds = ["run_started", "iteration_ended", "completed"];
    for kind in kinds {
        let id = format!("{}:{}", run_id(&env), seq(&env, kind));
        assert_eq!(receiver.next().header("webhook-id"), Some(id.as_str()), "{kind}");
    }
    env.run().expect(0);
    assert!(receiver.left().is_empty());
}

#[test]
fn a_receiver_that_never_answers_does_not_hold_the_run_up() {
    let receiver = Receiver::new(&[Answer::Nothing]);
    let env = webhook(&receiver, ALL);
    env.run().expect(0).says("not delivered yet; the next `run` sends them again");
    assert!(env.status()["latch"]["state"] == "completed");
    assert_eq!(receiver.next().json()["type"], "run.started");
}

#[test]
fn a_redirection_takes_neither_notice_nor_token_elsewhere() {
    let other = Receiver::new(&[OK]);
    let receiver = Receiver::new(&[Answer::Redirect(other.url.clone())]);
    let env = webhook(&receiver, "");
    env.run().expect(0).says("HTTP 302: redirections are not followed");
    assert!(other.left().is_empty());
}

#[test]
fn what_is_refused_is_not_sent_for_ever() {
    let receiver = Receiver::new(&[Answer::Status("404 Not Found")]);
    let env = webhook(&receiver, "");
    let go = env.fifo("go");
    env.agent.call(1).script("true\n").out("<promise>NEEDS_HUMAN: which?</promise>\n");
    env.agent.default_call().script(&format!("read x < {}\ntouch done\n", go.display())).out(DONE);
    env.run().expect(2);
    env.ralph(&["answer", "this"]).expect(0);
    let mut running = env.start(&["run"]);
    running.says("HTTP 404; the notice on needs_human is not sent again");
    fs::write(&go, "go\n").unwrap();
    running.wait().expect(0);
}

#[test]
fn a_question_comes_with_the_command_that_answers_it() {
    let receiver = Receiver::new(&[OK]);
    let env = webhook(&receiver, "");
    env.agent.call(1).out("<promise>NEEDS_HUMAN: which colour shall it be?</promise>\n");
    env.run().expect(2);
    let data = receiver.next().json()["data"].clone();
    assert_eq!(data["topic"], "needs_human");
    assert!(data["question"].as_str().unwrap().contains("which colour shall it be?"), "{data}");
    let next = data["next"].as_str().unwrap();
    assert_eq!(next, format!("ralph-orchestrator -w {} answer \"…\"", env.workspace().display()));
    // It does what it says, from anywhere.
    let workspace = env.workspace().display().to_string();
    env.ralph(&["-w", &workspace, "answer", "blue"]).expect(0).says("answered the question");
}

#[test]
fn words_of_the_checks_are_sent_only_to_who_asks_for_them() {
    for (content, is_there) in [("", false), ("content = true\n", true)] {
        let receiver = Receiver::new(&[OK]);
        let env = webhook(&receiver, &format!("on = [\"rejected\"]\n{content}"));
        env.agent.call(1).script("true\n").out(DONE);
        env.run().expect(0);
        let request = receiver.next();
        assert_eq!(request.json()["data"]["content"].is_string(), is_there, "{}", request.body);
        assert!(receiver.left().is_empty());
    }
}

#[test]
fn a_cost_that_is_not_reported_is_not_nothing() {
    let receiver = Receiver::new(&[OK]);
    let env = webhook(&receiver, "");
    env.run().expect(0);
    let data = receiver.next().json()["data"].clone();
    let message = data["message"].as_str().unwrap();
    assert!(message.ends_with("cost not reported"), "{message}");
    assert!(data["cost_usd"].is_null());
}

#[test]
fn work_that_nobody_could_check_is_no_rejection() {
    let receiver = Receiver::new(&[OK]);
    let env = webhook(&receiver, "on = [\"rejected\", \"needs_human\"]\n");
    let text = env.read("ralph.toml");
    env.raw_config(&format!(
        "{text}\n[[validator]]\nkind = \"command\"\nname = \"slow\"\n\
         program = [\"sleep\", \"1000\"]\ntimeout = \"100ms\"\n"
    ));
    env.run().expect(2);
    assert_eq!(receiver.next().json()["data"]["topic"], "needs_human");
    assert!(receiver.left().is_empty());
}

#[test]
fn after_a_kill_each_notice_arrives_with_its_id() {
    let receiver = Receiver::new(&[OK]);
    let env = webhook(&receiver, ALL);
    let go = env.fifo("go");
    env.agent.call(1).script(&format!("read x < {}\n", go.display()));
    let mut running = env.start(&["run"]);
    assert_eq!(receiver.next().json()["type"], "run.started");
    eventually("the agent works", || env.agent.calls() == 1);
    // Until that is written down, it would be sent again, with the same id.
    let record = env.journal_path().with_file_name("notices.jsonl");
    eventually("the answer is recorded", || {
        fs::read_to_string(&record).unwrap_or_default().contains("\"ended\"")
    });
    running.signal(Signal::KILL);
    running.wait();
    env.run().expect(0);
    let requests = receiver.left();
    let topics: Vec<_> =
        requests.iter().map(|request| request.json()["data"]["topic"].clone()).collect();
    assert_eq!(topics.iter().filter(|topic| *topic == "started").count(), 0, "{topics:?}");
    assert_eq!(topics.iter().filter(|topic| *topic == "completed").count(), 1, "{topics:?}");
    let mut ids: Vec<_> =
        requests.iter().map(|request| request.header("webhook-id").unwrap().to_owned()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), requests.len());
}

#[test]
fn who_is_new_is_not_sent_all_that_has_happened() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("true\n").out("<promise>NEEDS_HUMAN: which?</promise>\n");
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(2);
    let receiver = Receiver::new(&[OK]);
    env.config(&format!("\n[[notify]]\nkind = \"webhook\"\nurl = \"{}\"\n{ALL}", receiver.url));
    env.ralph(&["answer", "this"]).expect(0);
    env.run().expect(0);
    assert_eq!(receiver.next().json()["type"], "run.resumed");
}

#[test]
fn the_same_many_times_is_sent_once_in_a_while() {
    let receiver = Receiver::new(&[OK]);
    let env = webhook(&receiver, "on = [\"progress\", \"completed\"]\ncooldown = \"1h\"\n");
    for call in 1..4 {
        env.agent.call(call).script(&format!("echo {call} > file\n"));
    }
    env.run().expect(0);
    let topics: Vec<_> =
        receiver.left().iter().map(|request| request.json()["type"].clone()).collect();
    assert_eq!(topics, ["run.progress", "run.completed"]);
}

#[test]
fn services_get_what_they_expect() {
    for (kind, check) in
        [("slack", "*w: completed*\nproved done"), ("discord", "**w: completed**\nproved done")]
    {
        let receiver = Receiver::new(&[Answer::Status("204 No Content")]);
        let mut env = notified(kind, "url_env = \"WHERE\"\n");
        env.var("WHERE", &receiver.url);
        env.run().expect(0);
        let body = receiver.next().json();
        let text = body["text"].as_str().or(body["content"].as_str()).unwrap();
        assert!(text.starts_with(check), "{text}");
    }
    let receiver = Receiver::new(&[OK]);
    let env = notified("ntfy", &format!("url = \"{}\"\n", receiver.url));
    env.run().expect(0);
    let request = receiver.next();
    assert_eq!(request.header("title"), Some("w: completed"));
    assert!(request.body.starts_with("proved done after 1 iteration"), "{}", request.body);
}

#[test]
fn a_program_reads_the_notice_and_may_fail_once() {
    let env = notified("command", "command = [\"./tell.sh\", \"loudly\"]\n");
    env.write(
        "tell.sh",
        "#!/bin/sh\n[ -e failed ] || { touch failed; echo no connection >&2; exit 1; }\n\
         echo \"$1 $RALPH_NOTICE_ID $RALPH_NOTICE_TOPIC\" >> received; cat >> received\n",
    );
    env.write_mode("tell.sh", 0o755);
    let ended = env.run().expect(0);
    ended.says("notify command: ./tell.sh ended with exit 1: no connection");
    let received = env.read("received");
    let (first, json) = received.split_once('\n').unwrap();
    let id = format!("{}:{}", run_id(&env), seq(&env, "completed"));
    assert_eq!(first, format!("loudly {id} completed"));
    let notice: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(notice["data"]["id"], id);
}

#[test]
fn no_secret_stands_on_a_command_line() {
    let receiver = Receiver::new(&[OK]);
    let mut env = notified("webhook", "url_env = \"WHERE\"\ntoken_env = \"TOKEN\"\n");
    let tools = env.root().join("tools");
    fs::create_dir(&tools).unwrap();
    let curl = tools.join("curl");
    let log = env.root().join("arguments");
    let real = "PATH=$(echo \"$PATH\" | cut -d: -f2-) exec curl \"$@\"";
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {}\n{real}\n", log.display());
    fs::write(&curl, script).unwrap();
    fs::set_permissions(&curl, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    env.var("PATH", &format!("{}:{}", tools.display(), std::env::var("PATH").unwrap()));
    env.var("WHERE", &format!("{}?secret=in-the-address", receiver.url));
    env.var("TOKEN", "token-of-the-receiver");
    env.run().expect(0);
    receiver.next();
    assert_eq!(fs::read_to_string(log).unwrap(), "-q\n--config\n-\n");
}

#[test]
fn receivers_are_tried_before_they_are_needed() {
    let receiver = Receiver::new(&[OK]);
    let env = TestEnvironment::new();
    env.ralph(&["notify"]).expect(78).says("has no [[notify]]").says("kind = \"ntfy\"");
    let port = closed_port();
    env.config(&format!(
        "\n[[notify]]\nkind = \"webhook\"\nurl = \"{}\"\n[[notify]]\nkind = \"ntfy\"\nname = \"phone\"\n\
         url = \"http://127.0.0.1:{port}/x\"\n[[notify]]\nkind = \"slack\"\nurl_env = \"NOWHERE\"\n",
        receiver.url
    ));
    let ended = env.ralph(&["notify"]).expect(1);
    ended.says("ok    webhook: HTTP 200").says("FAIL  phone: curl ended with exit 7");
    ended.says("FAIL  slack: the variable NOWHERE is not set");
    assert!(receiver.next().body.contains("this is a test of the receiver"));
    env.ralph(&["notify", "webhook"]).expect(0);
    env.ralph(&["notify", "fon"]).expect(64).says("known are: webhook, phone, slack");
    let doctor = env.ralph(&["doctor"]);
    doctor.says("webhook: by /").says("slack: the variable NOWHERE is not set");
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(0).says("notify slack: the variable NOWHERE is not set; it is sent nothing");
}
