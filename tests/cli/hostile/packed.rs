//! The same agents, driven by the same adapter as a plugin: what holds for one that is built in holds
//! for it.
//!
//! What a plugin could change is repeated: processes, signals, time, output, events, claims, the sandbox. What the
//! orchestrator finds on disk is not: proof, protected files, the places of the state, the prompt and the
//! configuration. It examines those by itself, the same whoever has driven the agent.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{
    PROMISE, WORK, claims, completed, ends, floods, gone, hostile, output, processes, state,
};
use crate::environment::{PACKED, parents};
use crate::plugins::built_example;
use crate::{completion, limits, sandbox, secrets, signals, waits};

/// The adapter `command` as a library.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built_example("packed", "libpacked.so"))
}

macro_rules! packed {
    ($($module:ident::$test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                PACKED.set(true);
                $module::$test();
            }
        )*
    };
}

corpus!(packed);

#[test]
fn an_agent_that_ends_its_plugin_is_a_failed_iteration_and_leaves_nothing() {
    PACKED.set(true);
    let parents = parents();
    for whom in ["$host", "$host $its_shim", "$host $shim", "$host $fork_server $shim", "$its_shim"]
    {
        let env = hostile();
        env.agent.call(1).script(&format!(
            "{parents}echo $$ > \"$FAKE_DIR/self\"; kill -KILL {whom}; sleep 1000\n"
        ));
        env.agent.call(2).script(WORK).out(PROMISE);
        let ended = env.run();
        gone(&env, "self");
        assert_eq!(env.records("iteration_ended")[0]["outcome"]["type"], "failed", "{whom}");
        ends(&env, whom, &ended, completed(2, &["done"]));
    }
}

#[test]
fn an_agent_that_empties_the_caches_of_its_user_does_no_harm_to_its_plugin() {
    PACKED.set(true);
    let mut env = hostile();
    let caches = env.root().join("caches");
    env.var("XDG_CACHE_HOME", &caches.display().to_string());
    env.agent.call(1).script(&format!("rm -rf '{}'\n", caches.display()));
    env.agent.call(2).script(WORK).out(PROMISE);
    let ended = env.run();
    ends(&env, "caches", &ended, completed(2, &["done"]));
    assert!(caches.exists());
}
