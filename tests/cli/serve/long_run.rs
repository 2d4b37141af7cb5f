//! Runs with many records, and such as grow fast.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{Usage, Usd};
use ralph_orchestrator_machine::{IterationOutcome, Record, Trigger};
use ralph_orchestrator_store::{Layout, Store};
use serde_json::json;

use super::Server;
use super::browser::{Browser, Tab};
use crate::environment::TestEnvironment;

const DESK: (u32, u32) = (1280, 1000);
/// The most rows in the document, whatever the run's length.
const MOST_ROWS: u64 = 2000;
const ROWS: &str = "document.querySelectorAll('#story > div, #iterations > tr, #detail-text > div, #runs > li').length";

/// The orchestrator of a run that has stopped after an iteration, as far as its journal is concerned.
struct Writer {
    store: Store,
    iteration: u64,
    lines: u64,
}

impl Writer {
    /// Makes the run, and takes its lock.
    fn start(env: &TestEnvironment) -> Self {
        env.config("\n[limits]\nmax_iterations = 1\n");
        env.agent.default_call().out("not yet");
        env.run().expect(1);
        let mut store = Store::open(Layout::new(env.state())).unwrap();
        store.resume().unwrap().unwrap();
        Self { store, iteration: 1, lines: 0 }
    }

    fn append(&mut self, record: &Record) {
        self.store.append(record).unwrap();
    }

    /// Appends a record that the story shows on one line.
    fn line(&mut self) {
        self.lines += 1;
        let message = format!("line {} of a run that goes on", self.lines);
        self.append(&Record::Warning { message });
    }

    fn lines(&mut self, count: u64) {
        (0..count).for_each(|_| self.line());
    }

    fn iteration(&mut self) {
        self.iteration += 1;
        let (iteration, runtime_ms) = (self.iteration, self.iteration * 1000);
        self.append(&Record::IterationStarted {
            iteration,
            attempt: 1,
            trigger: Trigger::Continued,
            prompt: String::new(),
            fingerprint: String::new(),
            given: Default::default(),
            agent: "command".to_owned(),
            version: None,
            model: None,
            role: None,
            prompt_file: None,
            controls: Vec::new(),
            reservation: Usd::ZERO,
            runtime_ms,
        });
        self.append(&Record::IterationEnded {
            iteration,
            outcome: IterationOutcome::Succeeded,
            usage: Usage::default(),
            cost_usd: Usd::from_nanos(20_000_000),
            says_done: false,
            says_all_done: false,
            tool_calls: None,
            left_behind: Vec::new(),
            survived: Vec::new(),
            runtime_ms,
        });
    }
}

fn open(browser: &mut Browser, server: &mut Server) -> Tab {
    let address = format!("http://{}/#token={}", server.address, server.token);
    let tab = browser.open(&address, DESK, "light");
    server.read_address();
    tab
}

/// A number of the environment, for longer measurements than a test makes: see docs/dev/performance.md.
fn given(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |value| value.parse().unwrap())
}

/// Writes a figure to target/tmp/measured, for docs/dev/performance.md.
fn measured(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("measured");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), format!("{text}\n")).unwrap();
}

/// The memory of a process that is its own, and all that it has in memory, in KiB.
fn memory(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    (value("RssAnon:"), value("VmRSS:"))
}

#[test]
fn a_long_run_has_a_bounded_document_and_every_part_of_it_is_reached() {
    let env = TestEnvironment::new();
    let mut writer = Writer::start(&env);
    for _ in 0..500 {
        writer.iteration();
        writer.lines(2);
    }
    writer.lines(given("RALPH_TEST_RECORDS", 6000));
    let last = format!("line {} of a run that goes on", writer.lines);
    let mut server = Server::start(&env, &[]);
    let mut browser = Browser::start(&env.root().join("profile"));
    // Chromium has started.
    browser.open("about:blank", DESK, "light");
    let began = Instant::now();
    let tab = open(&mut browser, &mut server);
    browser.until(
        &tab,
        &format!("document.querySelector('#story')?.lastChild?.textContent.endsWith('{last}')"),
    );
    browser.until(&tab, "document.querySelectorAll('#iterations tr').length === 200");
    measured("opened", &format!("{} ms", began.elapsed().as_millis()));
    let newest = "document.querySelector('#iterations td').textContent";
    assert_eq!(browser.eval(&tab, newest), "501");
    // A long transcript beside it.
    let run = server.run();
    let folder = env.state().join("runs").join(run).join("iterations/0001");
    let lines: String = (0..1900)
        .map(|number| format!("{}\n", json!({"time": "2026-01-01T00:00:00Z", "type": "text", "text": format!("said {number}")})))
        .collect();
    fs::write(folder.join("transcript.jsonl"), lines).unwrap();
    for _ in 0..2 {
        let before = browser.eval(&tab, newest);
        browser.eval(&tab, "document.querySelector('#older').click()");
        browser.until(&tab, &format!("{newest} !== '{}'", before.as_str().unwrap()));
    }
    assert_eq!(browser.eval(&tab, newest), "101");
    assert_eq!(browser.eval(&tab, "document.querySelector('#older').hidden"), true);
    let show = "document.querySelector('[aria-label=\"transcript of iteration 1\"]').click()";
    browser.eval(&tab, show);
    browser.until(&tab, "document.querySelector('#detail-text').textContent.includes('said 599')");
    for _ in 0..3 {
        browser.eval(&tab, "document.querySelector('#later').click()");
    }
    browser.until(&tab, "document.querySelector('#detail-text').textContent.includes('said 1899')");
    assert_eq!(browser.eval(&tab, "document.querySelector('#later').hidden"), true);
    let rows = browser.eval(&tab, ROWS).as_u64().unwrap();
    assert!(rows <= MOST_ROWS, "{rows} rows");
    browser.eval(&tab, "document.querySelector('#newest').click()");
    browser.until(&tab, &format!("{newest} === '501'"));
}

/// What is measured while a run grows.
#[derive(Debug, Default)]
struct Measured {
    most_rows: u64,
    /// Bytes: at any time, and after a collection at the end.
    most_heap: f64,
    heap: f64,
}

fn heap(browser: &mut Browser, tab: &Tab) -> f64 {
    let metrics = browser.call(tab, "Performance.getMetrics", &json!({}));
    let all = metrics["metrics"].as_array().unwrap();
    let used = all.iter().find(|metric| metric["name"] == "JSHeapUsedSize").unwrap();
    used["value"].as_f64().unwrap()
}

/// Appends 200 records a second for this long, while a page follows or does not.
fn grow(writer: &mut Writer, browser: &mut Browser, tab: &Tab, seconds: u64) -> Measured {
    let mut measured = Measured::default();
    thread::scope(|scope| {
        let appended = scope.spawn(move || {
            let began = Instant::now();
            for tick in 0..seconds * 20 {
                writer.lines(10);
                let due = began + Duration::from_millis(50) * u32::try_from(tick + 1).unwrap();
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        });
        while !appended.is_finished() {
            measured.most_rows = measured.most_rows.max(browser.eval(tab, ROWS).as_u64().unwrap());
            measured.most_heap = measured.most_heap.max(heap(browser, tab));
            thread::sleep(Duration::from_millis(100));
        }
    });
    browser.call(tab, "HeapProfiler.collectGarbage", &json!({}));
    measured.heap = heap(browser, tab);
    measured
}

#[test]
fn a_page_that_is_read_stays_where_it_is_while_the_run_grows() {
    let seconds = given("RALPH_TEST_PAGE_SECONDS", 4);
    let env = TestEnvironment::new();
    let mut writer = Writer::start(&env);
    writer.lines(1500);
    let mut server = Server::start(&env, &[]);
    let mut browser = Browser::start(&env.root().join("profile"));
    let tab = open(&mut browser, &mut server);
    browser.call(&tab, "Performance.enable", &json!({}));
    browser.until(&tab, "document.querySelector('#story')?.childElementCount === 1000");
    // Somebody follows for half of the time.
    let followed = grow(&mut writer, &mut browser, &tab, seconds / 2);
    let last = |writer: &Writer| {
        format!(
            "document.querySelector('#story').lastChild.textContent.endsWith('line {} of a run that goes on')",
            writer.lines
        )
    };
    browser.until(&tab, &last(&writer));
    let scrolls = "(() => { const had = waiting; waiting = ['a row']; \
                   document.querySelector('#story').dispatchEvent(new Event('scroll')); \
                   waiting = had; return following; })()";
    assert_eq!(browser.eval(&tab, scrolls), true, "rows that wait are no reason not to follow");
    // Then somebody reads what is further up.
    browser.eval(&tab, "document.querySelector('#story').scrollTop = 3000");
    browser.until(&tab, "!document.querySelector('#follow').hidden");
    let place = "JSON.stringify([document.querySelector('#story').scrollTop, \
                 document.querySelector('#story').firstChild.textContent, \
                 document.querySelector('#story').childElementCount, scrollY])";
    let before = browser.eval(&tab, place);
    let read = grow(&mut writer, &mut browser, &tab, seconds - seconds / 2);
    assert_eq!(browser.eval(&tab, place), before, "what is read has moved");
    assert!(
        browser
            .eval(&tab, "document.querySelector('#follow').textContent")
            .as_str()
            .unwrap()
            .contains("more lines")
    );
    browser.eval(&tab, "document.querySelector('#follow').click()");
    browser.until(&tab, &last(&writer));
    for measured in [&followed, &read] {
        assert!(measured.most_rows <= MOST_ROWS, "{measured:?}");
        assert!(measured.most_heap < 150.0 * 1024.0 * 1024.0, "{measured:?}");
    }
    let server_kib = memory(server.pid());
    let text = format!(
        "{seconds} s: followed {followed:?}, read {read:?}, server (own, all) {server_kib:?} KiB"
    );
    measured("page", &text);
}

#[test]
fn a_server_that_is_killed_while_it_sends_leaves_no_gap() {
    let env = TestEnvironment::new();
    let mut writer = Writer::start(&env);
    writer.lines(3000);
    let mut server = Server::start(&env, &[]);
    let path = format!("/api/runs/{}/events", server.run());
    let mut stream = server.follow(&path, &[]);
    let mut numbers: Vec<u64> = (0..1000).map(|_| stream.next().unwrap().0).collect();
    thread::scope(|scope| {
        let writer = &mut writer;
        let appended = scope.spawn(move || {
            writer.lines(2000);
            writer.append(&Record::Clock { runtime_ms: 0 });
        });
        server.kill();
        // What was sent before is not lost, be it the half of a record.
        while let Some((number, _)) = stream.next() {
            numbers.push(number);
        }
        let again = Server::start(&env, &[]);
        let seen = [format!("Last-Event-ID: {}", numbers.last().unwrap())];
        let rest = again.follow(&path, &seen).until("clock");
        numbers.extend(rest.iter().map(|(number, _)| *number));
        appended.join().unwrap();
    });
    let expected = 1..=u64::try_from(env.journal().len()).unwrap();
    assert_eq!(numbers, expected.collect::<Vec<_>>());
}

#[test]
fn ten_clients_of_a_long_run_cost_little_memory() {
    let env = TestEnvironment::new();
    let mut writer = Writer::start(&env);
    writer.lines(given("RALPH_TEST_RECORDS", 6000));
    let server = Server::start(&env, &[]);
    let path = format!("/api/runs/{}", server.run());
    let mut streams: Vec<_> =
        (0..10).map(|_| server.follow(&format!("{path}/events?last=1000"), &[])).collect();
    for stream in &mut streams {
        (0..1000).for_each(|_| drop(stream.next().unwrap()));
    }
    server.get(&path).expect(200);
    // The list of runs keeps up with one that is active.
    for _ in 0..2 {
        writer.iteration();
        let listed = server.get("/api/runs").expect(200).json();
        assert_eq!(listed["runs"][0]["iterations"], writer.iteration, "{listed}");
    }
    writer.lines(100);
    for stream in &mut streams {
        let newest = (0..104).map(|_| stream.next().unwrap()).last().unwrap().1;
        assert!(
            newest["lines"][0].as_str().unwrap().contains(&format!("line {} of", writer.lines)),
            "{newest}"
        );
    }
    let (own, all) = memory(server.pid());
    measured("clients", &format!("{own} KiB of its own, {all} KiB in all"));
    // The pages of the program itself depend on how it was compiled.
    assert!(own < 24 << 10, "{own} KiB");
}
