//! Each path of the interface, and who is refused.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{HOSTILE, Server, completed};
use crate::environment::{TestEnvironment, eventually};
use crate::git::committed;

#[test]
fn every_path_shows_what_the_commands_show() {
    let env = completed();
    let server = Server::start(&env, &[]);
    let run = server.run();
    let listed = server.get("/api/runs").expect(200).json();
    let all: serde_json::Value =
        serde_json::from_str(&env.ralph(&["runs", "--all", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(listed["runs"], all);
    assert_eq!(listed["control"], false);
    let shown = server.get(&format!("/api/runs/{run}")).expect(200).json();
    for (key, value) in env.status().as_object().unwrap() {
        assert_eq!(shown[key], *value, "{key}");
    }
    assert_eq!(shown["verdicts"][0]["verdict"]["verdict"], "accepted");
    assert_eq!(shown["iteration_list"].as_array().unwrap().len(), 2);
    let transcript = server.get(&format!("/api/runs/{run}/iterations/1/transcript")).expect(200);
    let text = transcript.json()["lines"].to_string();
    assert!(text.contains("<script>") && text.contains("not yet"), "{text}");
    assert!(!transcript.body.contains('\u{202e}') && !transcript.body.contains("\\u001b"));
    let evidence = server.get(&format!("/api/runs/{run}/iterations/2/evidence")).expect(200).json();
    assert_eq!(evidence["records"][1]["kind"], "validated", "{evidence}");
    let metrics = server.get("/metrics").expect(200).body;
    assert!(metrics.contains(&format!("ralph_run_iterations{{run=\"{run}\"}} 2\n")), "{metrics}");
    assert_eq!(server.send("GET /healthz", &[server.host()], "").expect(200).body, "ok\n");
    let page = server.send("GET /", &[server.host()], "").expect(200);
    assert!(page.body.starts_with("<!doctype html>") && !page.body.contains(&server.token));
}

#[test]
fn a_diff_is_that_of_the_checkpoints() {
    let env = committed("checkpoint");
    env.agent.default_call().script("echo made > done\n").out("<promise>COMPLETE: it</promise>");
    env.run().expect(0);
    let server = Server::start(&env, &[]);
    let path = format!("/api/runs/{}/iterations/1/diff", server.run());
    let diff = server.get(&path).expect(200).json();
    assert!(diff["patch"].as_str().unwrap().contains("+made"), "{diff}");
    let path = format!("/api/runs/{}/iterations/9/diff", server.run());
    server.get(&path).expect(409);
}

#[test]
fn what_is_not_there_is_not_found() {
    let env = completed();
    let server = Server::start(&env, &["--control"]);
    let run = server.run();
    for path in [
        "/api/runs/none".to_owned(),
        "/api/runs/../../etc/passwd".to_owned(),
        "/api/runs/%2e%2e%2f%2e%2e%2fkey".to_owned(),
        "/api/runs/none/events".to_owned(),
        format!("/api/runs/{run}/iterations/9/transcript"),
        format!("/api/runs/{run}/iterations/1/prompt"),
        "/api".to_owned(),
        "/page.js".to_owned(),
    ] {
        server.get(&path).expect(404);
    }
    server.get(&format!("/api/runs/{run}/iterations/x/transcript")).expect(400);
    server.post(&format!("/api/runs/{run}/reset"), "k", "{}").expect(404);
}

#[test]
fn every_answer_forbids_what_the_page_does_not_need() {
    let env = TestEnvironment::new();
    let server = Server::start(&env, &[]);
    let foreign = ["Host: evil.example".to_owned()];
    for answer in [
        server.send("GET /", &[server.host()], ""),
        server.get("/api/runs"),
        server.send("GET /api/runs", &[server.host()], "").expect(401),
        server.send("GET /", &foreign, "").expect(403),
        server.get("/none"),
    ] {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

#[test]
fn nobody_else_is_let_in() {
    let env = completed();
    let server = Server::start(&env, &["--control"]);
    let (host, run) = (server.host(), server.run());
    let paths = ["/api/runs".to_owned(), format!("/api/runs/{run}"), "/metrics".to_owned()];
    let wrong = format!("Authorization: Bearer {}", "0".repeat(64));
    for path in &paths {
        let line = format!("GET {path}");
        server.send(&line, std::slice::from_ref(&host), "").expect(401);
        server.send(&line, &[host.clone(), wrong.clone()], "").expect(401);
        for host in ["evil.example", "127.0.0.1", "localhost:1", ""] {
            let host = format!("Host: {host}");
            server.send(&line, &[host, server.cookie()], "").expect(403);
        }
        let foreign = "Origin: http://evil.example".to_owned();
        server.send(&line, &[host.clone(), server.cookie(), foreign], "").expect(403);
        let null = "Origin: null".to_owned();
        server.send(&line, &[host.clone(), server.cookie(), null], "").expect(403);
    }
    for method in ["PUT", "DELETE", "PATCH", "POST", "OPTIONS", "TRACE"] {
        let headers = [host.clone(), server.cookie(), server.origin()];
        server.send(&format!("{method} /api/runs"), &headers, "").expect(405);
    }
    let line = format!("POST /api/runs/{run}/stop");
    let kind = "Content-Type: application/json".to_owned();
    let key = "Idempotency-Key: k".to_owned();
    let whole = [host, server.origin(), server.cookie(), kind, key, server.key()];
    for missing in 0..whole.len() {
        let mut headers = whole.to_vec();
        headers.remove(missing);
        let expected = [403, 403, 401, 415, 400, 401][missing];
        server.send(&line, &headers, "{}").expect(expected);
    }
    let mut text = whole.to_vec();
    text[3] = "Content-Type: text/plain".to_owned();
    server.send(&line, &text, "{}").expect(415);
    // Whatever listens on another port of this machine may come to know the cookie, but no key.
    let mut other = whole.to_vec();
    other[5] = Server::start(&env, &["--control"]).key();
    server.send(&line, &other, "{}").expect(401);
    server.send(&line, &whole, "{").expect(400);
    server.send(&line, &whole, &format!("\"{}\"", "x".repeat(70_000))).expect(413);
}

#[test]
fn the_token_becomes_a_cookie_and_is_nowhere_else() {
    let env = completed();
    let mut server = Server::start(&env, &[]);
    let kind = "Content-Type: application/json".to_owned();
    let headers = [server.host(), server.origin(), kind];
    let began = Instant::now();
    server.send("POST /api/session", &headers, r#"{"token": "wrong"}"#).expect(401);
    assert!(began.elapsed().as_millis() >= 1000, "guesses are not slowed down");
    let used = server.token.clone();
    let answer = server.log_in();
    let set = answer.header("set-cookie").unwrap();
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{set}");
    let cookie = format!("Cookie: other=1; {}", set.split(';').next().unwrap());
    server.send("GET /api/runs", &[server.host(), cookie.clone()], "").expect(200);
    // What a browser has kept of its address lets nobody else in.
    assert_ne!(used, server.token);
    let again = format!(r#"{{"token": "{used}"}}"#);
    server.send("POST /api/session", &headers, &again).expect(401);
    // The cookie of another server of this machine is none here.
    let other = Server::start(&env, &[]);
    other.send("GET /api/runs", &[other.host(), cookie], "").expect(401);
    for token in [&used, &server.token] {
        assert_eq!(files_with(&env.root(), token.as_bytes()), Vec::<String>::new(), "on disk");
    }
}

/// Files below a folder that contain these bytes.
fn files_with(folder: &std::path::Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if kind.is_file() {
            let content = fs::read(&path).unwrap_or_default();
            if content.windows(bytes.len()).any(|window| window == bytes) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn other_machines_need_a_proxy_and_a_passphrase() {
    let env = completed();
    let refused = env.ralph(&["serve", "--listen", "0.0.0.0:0"]).expect(64);
    refused.says("is reached by other machines").says("--behind-proxy --passphrase-file");
    env.ralph(&["serve", "--behind-proxy"]).expect(64);
    env.write("short", "too short\n");
    let short = ["serve", "--behind-proxy", "--passphrase-file", "short"];
    env.ralph(&short).expect(64).says("shorter than 16 characters");
    env.write("phrase", "correct horse battery staple\n");
    let args =
        ["serve", "--listen", "127.0.0.1:0", "--behind-proxy", "--passphrase-file", "phrase"];
    let server = Server::of(&env, &args);
    let host = "Host: runs.example".to_owned();
    let kind = "Content-Type: application/json".to_owned();
    let body = r#"{"token": "correct horse battery staple"}"#;
    let login = |origin: &str| {
        let headers = [host.clone(), kind.clone(), format!("Origin: {origin}")];
        server.send("POST /api/session", &headers, body)
    };
    login("https://evil.example").expect(403);
    let answer = login("https://runs.example").expect(200);
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; Secure"), "{cookie}");
    // A program shows it with each request.
    let bearer = "Authorization: Bearer correct horse battery staple".to_owned();
    server.send("GET /metrics", &[host, bearer], "").expect(200);
}

#[test]
fn guesses_of_the_passphrase_are_slow_even_for_those_who_do_not_wait() {
    let env = completed();
    env.write("phrase", "correct horse battery staple\n");
    let mut server =
        Server::of(&env, &["serve", "--listen", "127.0.0.1:0", "--passphrase-file", "phrase"]);
    let bearer = |phrase: &str| format!("Authorization: Bearer {phrase}");
    let (began, host) = (Instant::now(), server.host());
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let first = format!("GET /healthz HTTP/1.1\r\n{host}\r\n\r\n");
    let guess = format!("GET /metrics HTTP/1.1\r\n{host}\r\n{}\r\n\r\n", bearer("guess"));
    stream.write_all(format!("{first}{guess}").as_bytes()).unwrap();
    // Once the first is answered, the guess is compared; its sender does not wait for the answer.
    stream.read_exact(&mut [0; 12]).unwrap();
    server.send("GET /healthz", std::slice::from_ref(&host), "").expect(200);
    drop(stream);
    // Who has the token does not wait for those who guess.
    server.log_in();
    let right = bearer("correct horse battery staple");
    server.send("GET /metrics", &[server.host(), right], "").expect(200);
    assert!(began.elapsed().as_millis() >= 900, "the next came after {:?}", began.elapsed());
}

#[test]
fn a_client_that_sends_half_a_request_is_not_waited_for() {
    let env = TestEnvironment::new();
    let server = Server::start(&env, &[]);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head = format!(
        "POST /api/session HTTP/1.1\r\n{}\r\n{}\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{{",
        server.host(),
        server.origin()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[test]
fn an_address_in_use_is_named() {
    let env = TestEnvironment::new();
    let server = Server::start(&env, &[]);
    let ended = env.ralph(&["serve", "--listen", &server.address]).expect(64);
    ended.says(&format!("cannot listen on {}", server.address)).says("--listen 127.0.0.1:0");
}

#[test]
fn a_signal_ends_the_server_and_no_run() {
    let env = TestEnvironment::new();
    let (up, gate) = (env.fifo("up"), env.fifo("gate"));
    let script =
        format!("echo > '{}'\ncat '{}' > seen\ntouch done\n", up.display(), gate.display());
    env.agent.default_call().script(&script).out("<promise>COMPLETE: made it</promise>");
    let mut running = env.start(&["run"]);
    fs::read(&up).unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = Server::start(&env, &["--control"]);
        let run = server.run();
        let mut events = server.follow(&format!("/api/runs/{run}/events"), &[]);
        events.until("iteration_started");
        let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        eventually("the server has ended", || server.child.try_wait().unwrap().is_some());
    }
    fs::write(&gate, "go").unwrap();
    running.wait().expect(0);
}

#[test]
fn what_agents_wrote_is_only_text() {
    let env = completed();
    let server = Server::start(&env, &[]);
    let page = server.send("GET /", &[server.host()], "").expect(200);
    assert!(!page.body.contains(HOSTILE));
    let run = server.run();
    for path in [format!("/api/runs/{run}"), format!("/api/runs/{run}/iterations/1/transcript")] {
        let answer = server.get(&path).expect(200);
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}
