//! Whatever ends a run, with whatever agent: nothing of it is left, though its tool is at work and has
//! started what would outlive it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ralph_orchestrator_contract::Tokens;
use ralph_orchestrator_testkit::BusyTool;
use ralph_orchestrator_testkit::model_server::{ModelServer, Script, Turn};
use rustix::process::Signal;

use crate::environment::{TestEnvironment, eventually, of_run};
use crate::real::Real;

/// How many are examined at once: they mostly wait.
const AT_ONCE: usize = 6;
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(300);
/// Of a request: more than the budget here, and not so much that a context is full.
const DEAR: Tokens = Tokens { input: 100_000, output: 10, cache_read: 0, cache_write: 0 };

/// What ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// A key of `[limits]` that is a time.
    Time(&'static str),
    Budget,
    Signal(Signal, i32),
    /// `kill -9` of the orchestrator.
    Kill,
}

impl Stop {
    const ALL: [Self; 7] = [
        Self::Time("iteration_timeout"),
        Self::Time("max_runtime"),
        Self::Time("idle_timeout"),
        Self::Budget,
        Self::Signal(Signal::INT, 130),
        Self::Signal(Signal::TERM, 143),
        Self::Kill,
    ];

    /// `[limits]`, with times that are long enough for the agent's tool to be up before.
    fn limits(self, time: Duration) -> String {
        let limit = match self {
            Self::Time(key) => format!("{key} = \"{}s\"\n", time.as_secs()),
            Self::Budget => "max_cost_usd = 0.10\n".to_owned(),
            Self::Signal(..) | Self::Kill => String::new(),
        };
        format!("[limits]\nmax_iterations = 1\n{limit}")
    }
}

/// Runs until the tool is up, stops it, and looks. An error if the stop came before the tool.
fn examine(real: Real, stop: Stop, time: Duration) -> Result<(), String> {
    let mut tool = BusyTool::new();
    let script = match stop {
        // It stops the agent before a tool begins: what an earlier one has left is still there then.
        Stop::Budget => Script::new()
            .then(Turn::shell(&tool.background()).usage(Tokens::default()))
            .forever(Turn::shell("sleep 1000").usage(DEAR)),
        _ => Script::new().forever(Turn::shell(&tool.command())),
    };
    let model = ModelServer::scripted(script);
    let env = real.environment(
        &model,
        &format!("[[validator]]\nkind = \"command\"\nprogram = [\"true\"]\n{}", stop.limits(time)),
    );
    let mut running = env.start(&["run"]);
    let begin = Instant::now();
    while !tool.is_up() {
        assert!(begin.elapsed() < PATIENCE, "{real:?}, {stop:?}: the tool never ran");
        if running.child.try_wait().unwrap().is_some() {
            return Err(format!("{real:?}, {stop:?}: no tool was up: {:?}", running.wait()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    match stop {
        Stop::Time(_) | Stop::Budget => {
            running.wait().expect(1);
        }
        Stop::Signal(signal, status) => {
            running.signal(signal);
            running.wait().expect(status);
        }
        Stop::Kill => {
            running.signal(Signal::KILL);
            running.wait();
            // Nobody is there to wait for those who end the tree.
            eventually("everything is gone", || tool.is_gone() && left(&env).is_empty());
        }
    }
    assert!(tool.is_gone(), "{real:?}, {stop:?}: the tool has left something");
    assert_eq!(left(&env), Vec::<i32>::new(), "{real:?}, {stop:?}");
    Ok(())
}

fn left(env: &TestEnvironment) -> Vec<i32> {
    of_run(&env.root())
}

/// What is examined. Every limit that is a time cancels an agent in the same way, and so does every signal: each agent
/// meets one of them, by turns.
fn cases() -> Vec<(Real, Stop)> {
    let some = |is_one: fn(&Stop) -> bool| Stop::ALL.into_iter().filter(is_one).cycle();
    let times = some(|stop| matches!(stop, Stop::Time(_)));
    let signals = some(|stop| matches!(stop, Stop::Signal(..)));
    let all = Real::ALL.into_iter().zip(times.zip(signals));
    let all = all.flat_map(|(real, (time, signal))| {
        [Stop::Budget, Stop::Kill, time, signal].map(|stop| (real, stop))
    });
    // Codex behind the protocol tells what it has used when its turn has ended: no budget cuts a turn.
    all.filter(|case| *case != (Real::AcpCodex, Stop::Budget)).collect()
}

#[test]
fn no_stop_leaves_anything_of_any_agent() {
    let all = cases();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((real, stop)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // On a busy machine an agent may take longer to come to its tool than a limit lets it.
                    let stopped = examine(*real, *stop, Duration::from_secs(10))
                        .or_else(|_| examine(*real, *stop, Duration::from_secs(40)))
                        .or_else(|_| examine(*real, *stop, Duration::from_secs(120)));
                    assert_eq!(stopped, Ok(()));
                }
            });
        }
    });
}

#[test]
fn the_end_says_that_the_agent_spoke_of_being_done_without_a_claim() {
    let env = TestEnvironment::new();
    env.agent.default_call().out("All done.\n");
    let ended = env.start(&["run", "--once"]).wait();
    ended.says("claims      said to be done 1×, never claimed; `why` shows what a claim is");
}
