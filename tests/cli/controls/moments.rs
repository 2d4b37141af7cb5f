//! Every control at every moment of a run.

use super::{Moment, Scene};

/// One test for each moment.
macro_rules! at_every_moment {
    ($control:ident) => {
        mod $control {
            use super::{Moment, Scene};

            at_every_moment! { $control:
                before_the_first_run BeforeTheFirstRun, in_an_iteration InAnIteration,
                in_a_delay InADelay, in_a_validation InAValidation, in_a_wait InAWait,
                in_a_pause InAPause, after_a_kill AfterAKill, when_complete WhenComplete
            }
        }
    };
    ($control:ident: $($name:ident $moment:ident),*) => {
        $(
            #[test]
            fn $name() {
                super::super::moments::checks::$control(Scene::at(Moment::$moment));
            }
        )*
    };
}

at_every_moment!(steer);
at_every_moment!(answer);
at_every_moment!(pause);
at_every_moment!(pause_now);
at_every_moment!(resume);
at_every_moment!(limits_up);
at_every_moment!(limits_down);
at_every_moment!(stop);

mod checks {
    use super::{Moment, Scene};
    use crate::environment::eventually;

    /// Before the first run and after the completion a control is refused, and changes nothing. Returns whether
    /// it was.
    fn is_refused(scene: &Scene, command: &[&str]) -> bool {
        let why = match scene.moment {
            Moment::BeforeTheFirstRun => "no run in this workspace yet",
            Moment::WhenComplete => "is complete",
            _ => return false,
        };
        scene.env.ralph(command).expect(64).says(why);
        match scene.moment {
            Moment::BeforeTheFirstRun => assert!(!scene.env.has_state()),
            _ => assert_eq!(scene.env.status()["phase"], "completed"),
        }
        true
    }

    /// Lets the run go on to its completion, whatever it waits for.
    fn complete(mut scene: Scene) -> Scene {
        match scene.moment {
            Moment::AfterAKill => {
                scene.env.run().expect(0);
            }
            Moment::InADelay => {
                scene.env.ralph(&["stop"]).expect(0);
                scene.ends(143);
                scene.env.run().expect(0);
            }
            Moment::InAPause => {
                scene.env.ralph(&["resume"]).expect(0).says("the pause is over");
                scene.ends(0);
            }
            _ => {
                scene.release_if_held();
                scene.ends(0);
            }
        }
        scene
    }

    pub(super) fn steer(scene: Scene) {
        let queued = "queued: this goes to the top of the next prompt";
        guided_by(scene, &["steer", "look at the parser"], queued);
    }

    /// No question is open at any of these moments.
    pub(super) fn answer(scene: Scene) {
        guided_by(scene, &["answer", "look at the parser"], "no question is open");
    }

    fn guided_by(mut scene: Scene, command: &[&str], says: &str) {
        if is_refused(&scene, command) {
            return;
        }
        scene.env.ralph(command).expect(0).says(says);
        assert_eq!(scene.env.status()["guidance"][0]["state"], "queued");
        if scene.moment == Moment::InAWait {
            assert_eq!(scene.env.status()["phase"], "running", "it goes on waiting");
            scene.env.ralph(&["stop"]).expect(0);
            return scene.ends(143);
        }
        let scene = complete(scene);
        let prompt = scene.prompt(2);
        assert!(prompt.contains("Guidance from a human:\n- look at the parser\n"), "{prompt}");
        assert_eq!(scene.env.status()["guidance"][0]["state"], "seen");
    }

    pub(super) fn pause(scene: Scene) {
        paused_by(scene, &["pause"]);
    }

    pub(super) fn pause_now(scene: Scene) {
        paused_by(scene, &["pause", "--now"]);
    }

    fn paused_by(mut scene: Scene, command: &[&str]) {
        let now = command.contains(&"--now");
        if is_refused(&scene, command) {
            return;
        }
        let ended = scene.env.ralph(command).expect(0);
        let cancels = scene.moment == Moment::InAnIteration && now;
        match scene.moment {
            Moment::InAPause => {
                ended.says("already paused by ");
                complete(scene);
                return;
            }
            Moment::AfterAKill => {
                ended.says("the next `ralph-orchestrator run` waits");
                scene.running = Some(scene.env.start(&["run", "--json"]));
            }
            Moment::InAnIteration if now => {
                ended.says("iteration 1 is cancelled");
            }
            Moment::InAnIteration => {
                ended.says("pausing after iteration 1");
                scene.release();
            }
            Moment::InAValidation => scene.release(),
            _ => {}
        }
        scene.prints("\"event\":\"pause_began\"");
        eventually("the run is paused", || scene.env.status()["phase"] == "paused");
        assert_eq!(scene.env.agent.calls(), 1, "no iteration begins");
        assert_eq!(scene.env.status()["failures"], 0);
        scene.env.ralph(&["resume"]).expect(0).says("the pause is over");
        if scene.moment == Moment::InAWait {
            // The provider still refuses requests.
            eventually("it waits again", || scene.env.status()["phase"] == "running");
            assert!(scene.env.status()["waiting_until"].is_string());
            assert_eq!(scene.env.agent.calls(), 1);
            scene.env.ralph(&["stop"]).expect(0);
            return scene.ends(143);
        }
        scene.ends(0);
        let started = scene.env.records("iteration_started");
        let begun: Vec<_> =
            started.iter().map(|record| (&record["iteration"], &record["attempt"])).collect();
        let expected = if cancels { [(1, 1), (1, 2)] } else { [(1, 1), (2, 1)] };
        assert_eq!(begun.len(), expected.len());
        for ((iteration, attempt), expected) in begun.into_iter().zip(expected) {
            assert_eq!((iteration, attempt), (&expected.0.into(), &expected.1.into()));
        }
    }

    pub(super) fn resume(mut scene: Scene) {
        if is_refused(&scene, &["resume"]) {
            return;
        }
        if scene.moment != Moment::InAPause {
            scene.env.ralph(&["resume"]).expect(0).says("the run is not paused");
            assert_eq!(scene.controls().last().unwrap()["refused"], "the run is not paused");
        }
        if scene.moment == Moment::InAWait {
            scene.env.ralph(&["stop"]).expect(0);
            return scene.ends(143);
        }
        complete(scene);
    }

    pub(super) fn limits_up(mut scene: Scene) {
        let command = ["limits", "--max-cost", "90"];
        if is_refused(&scene, &command) {
            return;
        }
        scene.env.ralph(&command).expect(0).says("max_cost_usd    $90");
        assert_eq!(scene.env.status()["limits"]["max_cost_usd"], 90.0);
        if scene.moment == Moment::InAWait {
            scene.env.ralph(&["stop"]).expect(0);
            return scene.ends(143);
        }
        let scene = complete(scene);
        assert_eq!(scene.env.status()["limits"]["max_cost_usd"], 90.0, "over restarts as well");
    }

    pub(super) fn limits_down(mut scene: Scene) {
        // The cost of a running agent is known at its end only.
        let (command, reason) = match scene.moment {
            Moment::InAnIteration => (["limits", "--max-runtime", "1ms"], "max_runtime"),
            _ => (["limits", "--max-cost", "0.1"], "max_cost"),
        };
        if is_refused(&scene, &command) {
            return;
        }
        scene.env.ralph(&command).expect(0);
        match scene.moment {
            Moment::AfterAKill => {
                scene.env.run().expect(1);
            }
            Moment::InAValidation => {
                scene.release();
                scene.ends(1);
            }
            _ => scene.ends(1),
        }
        assert_eq!(scene.env.status()["stop_reason"], reason);
        assert_eq!(scene.env.agent.calls(), 1);
        // Raised again, the run goes on.
        if scene.moment != Moment::InAWait {
            scene.env.ralph(&["why"]).expect(0).says("was set by `limits`");
            scene.env.ralph(&["limits", "--clear"]).expect(0);
            if scene.moment == Moment::InAPause {
                scene.env.ralph(&["resume"]).expect(0);
            }
            scene.env.run().expect(0);
        }
    }

    pub(super) fn stop(mut scene: Scene) {
        let is_active = scene.running.is_some();
        let ended = scene.env.ralph(&["stop"]).expect(0);
        if !is_active {
            ended.says("no run is active");
            return;
        }
        ended.says("stopped");
        scene.ends(143);
        let all = scene.controls();
        let last = all.last().unwrap();
        assert_eq!(last["control"]["type"], "stop", "{last}");
        assert_eq!(last["refused"], serde_json::Value::Null, "{last}");
        assert_eq!(last["origin"]["program"], "command line");
        let inbox = std::fs::read_dir(scene.env.state().join("inbox")).unwrap();
        assert_eq!(inbox.count(), 0);
        scene.env.ralph(&["log"]).expect(0).says("stop requested by ");
    }
}
