//! The records of a run as they are written.

use std::fs;

use super::{Server, completed, held};

#[test]
fn a_client_gets_every_record_once_and_in_order() {
    let env = completed();
    let server = Server::start(&env, &[]);
    let path = format!("/api/runs/{}/events", server.run());
    let all = server.follow(&path, &[]).until("explained");
    let numbers: Vec<u64> = all.iter().map(|(id, _)| *id).collect();
    assert_eq!(numbers, (1..=u64::try_from(all.len()).unwrap()).collect::<Vec<_>>());
    let journal = env.journal();
    assert_eq!(all.len(), journal.len());
    for ((_, event), entry) in all.iter().zip(&journal) {
        assert_eq!(event["record"]["kind"], entry["kind"]);
        assert_eq!(event["record"]["seq"], entry["seq"]);
    }
    let log = env.ralph(&["log"]).expect(0).stdout;
    let lines = all.iter().flat_map(|(_, event)| event["lines"].as_array().unwrap());
    let lines: Vec<&str> = lines.map(|line| line.as_str().unwrap()).collect();
    assert_eq!(lines, log.lines().collect::<Vec<_>>());
    // From a place, by the query and by what a browser sends when it connects again.
    let after = &server.follow(&format!("{path}?after=5"), &[]).until("explained")[0];
    assert_eq!(after.0, 6);
    let seen = ["Last-Event-ID: 7".to_owned()];
    assert_eq!(server.follow(&format!("{path}?after=2"), &seen).until("explained")[0].0, 8);
    // What is said of a record does not depend on where a client begins.
    for left in 1..=all.len() {
        let last = server.follow(&format!("{path}?last={left}"), &[]).until("explained");
        assert_eq!(last, all[all.len() - left..]);
        let after = format!("{path}?after={}", all.len() - left);
        assert_eq!(server.follow(&after, &[]).until("explained"), last);
    }
}

#[test]
fn a_server_that_is_killed_leaves_no_gap_and_repeats_nothing() {
    let (env, gate, mut running) = held();
    let mut server = Server::start(&env, &[]);
    let path = format!("/api/runs/{}/events", server.run());
    let mut stream = server.follow(&path, &[]);
    let before = stream.until("iteration_started");
    server.kill();
    while stream.next().is_some() {}
    let again = Server::start(&env, &[]);
    let seen = [format!("Last-Event-ID: {}", before.last().unwrap().0)];
    let mut stream = again.follow(&path, &seen);
    fs::write(&gate, "go").unwrap();
    let after = stream.until("explained");
    running.wait().expect(0);
    let numbers: Vec<u64> = before.iter().chain(&after).map(|(id, _)| *id).collect();
    let expected = 1..=u64::try_from(env.journal().len()).unwrap();
    assert_eq!(numbers, expected.collect::<Vec<_>>());
}

#[test]
fn damage_is_said_and_ends_the_stream() {
    let env = completed();
    let server = Server::start(&env, &[]);
    let path = format!("/api/runs/{}/events", server.run());
    let journal = env.journal_path();
    let mut bytes = fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let mut stream = server.follow(&path, &[]);
    let mut last = None;
    while let Some(event) = stream.next() {
        let is_problem = event.1.get("error").is_some();
        last = Some(event);
        if is_problem {
            break;
        }
    }
    let problem = last.unwrap().1["error"].to_string();
    assert!(problem.contains("journal"), "{problem}");
    let listed = server.get("/api/runs").expect(200).json();
    assert_eq!(listed["runs"][0]["phase"], "damaged");
}

#[test]
fn ten_clients_follow_at_once() {
    let env = completed();
    let server = Server::start(&env, &[]);
    let path = format!("/api/runs/{}/events", server.run());
    let mut streams: Vec<_> = (0..10).map(|_| server.follow(&path, &[])).collect();
    let first = streams[0].until("completed");
    for stream in &mut streams[1..] {
        assert_eq!(stream.until("completed"), first);
    }
}
