//! A budget, and agents whose every turn costs 20 cents of it.

use ralph_orchestrator_contract::Tokens;
use ralph_orchestrator_testkit::model_server::{ModelServer, Reply, Script, Turn};
use serde_json::Value;

use crate::environment::{TestEnvironment, of_run};
use crate::real::Real;

/// Of a turn, in dollars.
const TURN: f64 = 0.2;
/// The first turn that ends over a budget of thirty cents.
const TURNS: u32 = 2;

/// What a turn of 20 cents uses.
fn dear(real: Real) -> Tokens {
    let input = match real {
        // Claude Code knows the prices of its models: 5 and 25 dollars for a million tokens.
        Real::ClaudeCli | Real::ClaudeSdk => 39_960,
        // 4 and 20 dollars for the model that it uses by default.
        Real::AcpClaude => 49_960,
        Real::AcpCodex | Real::Codex => 99_992,
    };
    Tokens { input, output: 8, ..Tokens::default() }
}

fn environment(real: Real, model: &ModelServer) -> TestEnvironment {
    let prices = match real {
        Real::ClaudeCli | Real::ClaudeSdk | Real::AcpClaude => "",
        Real::AcpCodex | Real::Codex => {
            "[agent.prices]\ninput = 2.0\noutput = 2.0\ncache_read = 2.0\ncache_write = 2.0\n"
        }
    };
    let validator = "[[validator]]\nkind = \"command\"\nprogram = [\"true\"]\n";
    let limits = "[limits]\nmax_cost_usd = 0.30\n";
    real.environment(model, &format!("{prices}{validator}{limits}"))
}

/// How often it is tried again where the last turn was cut before the server had sent it all.
const MOST_CUT: usize = 4;

/// Runs it against the model of the script, and sees that what is in the journal is what was served.
fn stopped(real: Real, script: impl Fn() -> Script) -> Value {
    let mut cut = 0;
    let (env, status, served) = loop {
        let model = ModelServer::scripted(script());
        let env = environment(real, &model);
        env.run().expect(1).says("max_cost");
        let (status, served) = (env.status(), model.served());
        // Claude says what a turn costs at its beginning: on a busy machine the budget ends it in its middle.
        let is_cut = served.input < u64::from(TURNS) * dear(real).input;
        if !is_cut || cut == MOST_CUT {
            break (env, status, served);
        }
        assert!(status["tokens"]["input"].as_u64() >= Some(served.input), "{real:?}: {status}");
        cut += 1;
    };
    assert_eq!(served.input, u64::from(TURNS) * dear(real).input, "{real:?}: {status}");
    let tokens = [&status["tokens"]["input"], &status["tokens"]["output"]];
    assert_eq!(tokens, [served.input, served.output], "{real:?}: {status}");
    let cost = status["cost_usd"].as_f64().unwrap();
    assert!((cost - f64::from(TURNS) * TURN).abs() < 1e-6, "{real:?}: {status}");
    let estimated = matches!(real, Real::AcpCodex | Real::Codex);
    assert_eq!(status["cost_estimated"], estimated, "{real:?}");
    assert_eq!(env.ralph(&["status"]).expect(0).stdout.contains("(estimated)"), estimated);
    assert_eq!(of_run(&env.root()), Vec::<i32>::new(), "{real:?}");
    status
}

/// Each on a thread of its own.
fn for_each(reals: &[Real], examine: impl Fn(Real) + Sync) {
    std::thread::scope(|scope| {
        for real in reals {
            scope.spawn(|| examine(*real));
        }
    });
}

#[test]
fn a_budget_stops_an_iteration_with_the_turn_that_goes_over_it() {
    // Codex behind the protocol tells what it has used when its turn has ended, not before.
    let all = [Real::ClaudeCli, Real::ClaudeSdk, Real::AcpClaude, Real::Codex];
    for_each(&all, |real| {
        let turn = Turn::shell("date >> ticks").usage(dear(real));
        // Another turn may have been asked for by then. It is not answered, so that it costs nothing,
        // and the run hangs unless what it has been told is enough to stop it.
        let script = || Script::new().times(TURNS as usize, turn.clone()).forever(Reply::Hang);
        let status = stopped(real, script);
        assert_eq!(status["iterations"], 1, "{real:?}: {status}");
    });
}

#[test]
fn a_budget_stops_a_run_before_the_iteration_that_it_does_not_allow() {
    // What an agent reports within an iteration is seen above: one of those, and the one that reports at its end.
    for_each(&[Real::ClaudeCli, Real::AcpCodex], |real| {
        let turn = Turn::text("Going on.").usage(dear(real));
        let script = || {
            Script::new().times(TURNS as usize, turn.clone()).forever(
                // Some ask for more than the turn needs, such as for what could come next.
                Turn::text("").usage(Tokens::default()),
            )
        };
        let status = stopped(real, script);
        assert_eq!(status["iterations"], TURNS, "{real:?}: {status}");
    });
}
