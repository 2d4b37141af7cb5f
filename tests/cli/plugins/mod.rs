//! Plugins that are programs, under the real orchestrator.

mod author;
mod compatibility;
mod example;
mod kit;
mod rogue;

use crate::environment::TestEnvironment;

/// A workspace whose agent is this program, told `how` as its argument. The plugin lies outside of the
/// workspace.
fn environment(program: &str, how: &str, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let path = env.root().join("plugin.py");
    std::fs::write(&path, program).unwrap();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[plugins.rogue]\ncommand = [\"python3\", \"{}\", \"{how}\"]\n\
         [agent]\nadapter = \"rogue\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         {more}\n",
        path.display()
    ));
    env
}
