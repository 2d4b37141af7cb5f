//! What plugins cost: an event, a start, and memory, against the adapter `command`, which is built in.
//! Prints; asserts nothing about time.
//!
//! `cargo bench --bench plugins`. The plugin is built for it, with optimisation.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    missing_docs
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{
    Agent, Budget, BuildContext, CancelReason, CancelSignal, Event, EventSink, Iteration,
    NeverCancelled, async_trait,
};
use ralph_orchestrator_plugin_host::{Plugin, PrivateCopy, check};
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::json;
use tempfile::TempDir;

/// Events of one run.
const EVENTS: u64 = 200_000;
/// Each figure is the best of so many: everything else is the machine's noise.
const RUNS: usize = 5;
const STARTS: usize = 20;

fn main() {
    // This program serves libraries and supervises, as the real one does.
    ralph_orchestrator_supervisor::shim::intercept();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let [command, library] = arguments.as_slice()
        && command == ralph_orchestrator_plugin_host::HOST_COMMAND
    {
        println!("{}", ralph_orchestrator_plugin_host::run_host_process(Path::new(library)));
        std::process::exit(1);
    }
    let folder = TempDir::new().unwrap();
    let copy = check(&build(), None).unwrap().copy_to(&folder.path().join("copies")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure(&folder, &copy));
}

/// The plugin of the tests, which emits as many events as its prompt says.
fn build() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let exe = std::env::current_exe().unwrap();
    let target = exe.ancestors().nth(3).unwrap().join("plugins/bench");
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--locked", "--target-dir"]).arg(&target);
    command.current_dir(here.join("orchestrator/plugin/host/tests/plugins/misbehaving"));
    for (key, _) in std::env::vars_os() {
        if key.to_str().is_some_and(|key| key.starts_with("CARGO_PKG") || key == "RUSTC") {
            command.env_remove(key);
        }
    }
    assert!(command.status().unwrap().success(), "the plugin does not build");
    target.join("release/libmisbehaving.so")
}

async fn measure(folder: &TempDir, copy: &PrivateCopy) {
    let supervisor = Supervisor::this_binary();
    let builtin = builtin(folder, &supervisor);
    let plugin = plugin(copy, &supervisor, folder).await;

    let before = memory("self");
    let of_builtin = each(&*builtin, folder).await;
    figure("an event of the adapter `command`", of_builtin, None, None);
    let of_plugin = each(&*plugin, folder).await;
    figure("an event of a plugin", of_plugin, Some(20.0), Some(of_builtin));
    let grown = memory("self").saturating_sub(before);
    println!(
        "{:<44} {grown:>9} KiB      aim: bounded, whatever the number",
        "memory grew over all of it by"
    );

    let env = env();
    let bare = best(&async || {
        builtin.run(task(folder, "0"), &Counts::default()).await.unwrap();
    })
    .await;
    figure("a start of the adapter `command`", bare, None, None);
    let start = best(&async || {
        plugin.check(&env).await.unwrap();
    })
    .await;
    figure("start, hello, open, a call and its end", start, Some(15_000.0), Some(bare));
}

fn figure(what: &str, found: Duration, aim: Option<f64>, against: Option<Duration>) {
    let micros = found.as_secs_f64() * 1e6;
    let aim = aim.map(|aim| format!("  aim: at most {aim} us")).unwrap_or_default();
    let ratio = against.map(|against| {
        format!("  {:.2} of the built-in's", found.as_secs_f64() / against.as_secs_f64())
    });
    println!("{what:<44} {micros:>9.2} us {aim}{}", ratio.unwrap_or_default());
}

/// The time of one event, out of many.
async fn each(agent: &dyn Agent, folder: &TempDir) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..RUNS {
        let counts = Counts::default();
        let began = Instant::now();
        agent.run(task(folder, &format!("flood {EVENTS}")), &counts).await.unwrap();
        shortest = shortest.min(began.elapsed());
        let counted = counts.0.load(Ordering::Relaxed);
        assert!(counted >= EVENTS, "{counted} of {EVENTS} events came");
    }
    shortest.div_f64(EVENTS as f64)
}

async fn best(work: &impl AsyncFn()) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..STARTS {
        let began = Instant::now();
        work().await;
        shortest = shortest.min(began.elapsed());
    }
    shortest
}

#[derive(Default)]
struct Counts(AtomicU64);

#[async_trait]
impl CancelSignal for Counts {
    async fn cancelled(&self) -> CancelReason {
        NeverCancelled.cancelled().await
    }
}

#[async_trait]
impl EventSink for Counts {
    async fn emit(&self, _: Event) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn env() -> BTreeMap<String, String> {
    BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())])
}

fn context(folder: &TempDir) -> BuildContext {
    BuildContext {
        config_dir: folder.path().to_owned(),
        workspace: folder.path().to_owned(),
        prompt_dir: folder.path().to_owned(),
        path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
    }
}

fn task(folder: &TempDir, prompt: &str) -> Iteration {
    Iteration {
        run: "bench".to_owned(),
        number: 1,
        prompt: prompt.as_bytes().to_vec(),
        workspace: folder.path().to_owned(),
        env: env(),
        budget: Budget::default(),
        scratch: folder.path().to_owned(),
    }
}

async fn plugin(copy: &PrivateCopy, supervisor: &Supervisor, folder: &TempDir) -> Box<dyn Agent> {
    let plugin = Arc::new(Plugin::library("bench", copy.clone(), env()));
    plugin.agent(None, json!({}), &context(folder), supervisor).await.unwrap()
}

/// The same from a program: it prints as many messages as its prompt says, each of which is an event.
fn builtin(folder: &TempDir, supervisor: &Supervisor) -> Box<dyn Agent> {
    let message =
        json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "event"}]}});
    let result =
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "done"});
    let script =
        format!("read -r _ count; yes '{message}' | head -n \"${{count:-0}}\"; echo '{result}'");
    let table = json!({"program": ["sh", "-c", script], "output": "claude-json"});
    ralph_adapter_command::build(table, &context(folder), supervisor).unwrap()
}

/// What a process holds, in KiB.
fn memory(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
