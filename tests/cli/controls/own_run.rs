//! An agent that would control its own run.

use std::fs;

use crate::environment::{TestEnvironment, tested_program};

/// Sends all controls, from its own session and from one that has left the agent's.
const CONTROLS: &str = r#"
send() { "$PROGRAM" $1 >> "$FAKE_DIR/said" 2>&1; echo "$1: $?" >> "$FAKE_DIR/statuses"; }
for words in "limits --max-iterations 9" pause resume "steer x" "answer x" "reset --yes"; do
    send "$words"
done
unset RALPH_RUN_ID RALPH_ITERATION
send "limits --max-cost none"
mkfifo "$FAKE_DIR/left"
export FAKE_DIR PROGRAM
(setsid sh -c '"$PROGRAM" pause >> "$FAKE_DIR/said" 2>&1; echo "left: $?" > "$FAKE_DIR/left"' &)
cat "$FAKE_DIR/left" >> "$FAKE_DIR/statuses"
"#;

fn statuses(env: &TestEnvironment) -> Vec<String> {
    let text = fs::read_to_string(env.agent.program().with_file_name("statuses")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn no_control_of_an_agent_reaches_its_own_run() {
    let env = TestEnvironment::new();
    let program = tested_program().display();
    env.agent.call(1).script(&format!("PROGRAM='{program}'\n{CONTROLS}touch done\n"));
    env.agent.default_call().out("<promise>COMPLETE: x</promise>\n");
    env.run().expect(0);
    let expected = [
        "limits --max-iterations 9: 64",
        "pause: 64",
        "resume: 64",
        "steer x: 64",
        "answer x: 64",
        // As for anybody while the run is active.
        "reset --yes: 75",
        "limits --max-cost none: 64",
        "left: 64",
    ];
    assert_eq!(statuses(&env), expected);
    let said = fs::read_to_string(env.agent.program().with_file_name("said")).unwrap();
    assert!(said.contains("a run takes no controls of what it has started"), "{said}");
    assert!(said.contains("use another terminal"), "{said}");
    for kind in ["limits_set", "pause_requested", "guidance"] {
        assert!(!env.has_record(kind), "{kind}");
    }
}

#[test]
fn a_run_inside_a_run_is_controlled_by_the_outer_agent() {
    let (env, inner) = (TestEnvironment::new(), TestEnvironment::new());
    let (at, go) = (inner.fifo("at"), inner.fifo("go"));
    inner.agent.call(1).script(&format!(
        "echo at > '{}'; read go < '{}'; touch done\n",
        at.display(),
        go.display()
    ));
    inner.agent.default_call().out("<promise>COMPLETE: inner</promise>\n");
    let program = tested_program().display();
    env.agent.call(1).script(&format!(
        "touch done\ncd '{folder}'\n'{program}' run > \"$FAKE_DIR/inner\" 2>&1 &\n\
         read at < '{at}'\n\
         '{program}' steer 'look at the parser' > \"$FAKE_DIR/said\" 2>&1\n\
         echo \"steer: $?\" > \"$FAKE_DIR/statuses\"\n\
         echo go > '{go}'\nwait\n",
        folder = inner.workspace().display(),
        at = at.display(),
        go = go.display(),
    ));
    env.agent.default_call().out("<promise>COMPLETE: x</promise>\n");
    env.run().expect(0);
    let said = fs::read_to_string(env.agent.program().with_file_name("said")).unwrap();
    assert_eq!(statuses(&env), ["steer: 0"], "{said}");
    assert!(said.contains("queued"), "{said}");
}
