//! The orchestrator's tools, as a server that an agent starts.

use std::fs;

use ralph_orchestrator_contract::Iteration;
use serde_json::Value;

/// The file in the private folder of an iteration that says how the server is started.
const FILE: &str = "tools.json";

/// Returns the program, and its arguments, that serves the orchestrator's tools of this iteration on its standard
/// input and output, in the Model Context Protocol: `claim_complete`, `need_human`, `note`, `status` and
/// `next_task`. `None` if there is none, as in a plugin's own tests. For an agent that is given such servers; one
/// that has a model of its own calls [`agent_tools`](ralph_orchestrator_contract::agent_tools) itself.
///
/// It works only while the iteration runs, and what it is told counts as told by the agent: it need not be passed on.
#[must_use]
pub fn tool_server_command(task: &Iteration) -> Option<Vec<String>> {
    let file = fs::read(task.scratch.join(FILE)).ok()?;
    let file: Value = serde_json::from_slice(&file).ok()?;
    let command = file.get("command")?.as_array()?;
    command.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Workspace;

    #[test]
    fn the_command_is_read_where_there_is_one() {
        let workspace = Workspace::new();
        assert_eq!(tool_server_command(&workspace.task()), None);
        for broken in ["", "{}", r#"{"command": [7]}"#, r#"{"command": "x"}"#] {
            workspace.write(FILE, broken);
            assert_eq!(tool_server_command(&workspace.task()), None, "{broken}");
        }
        workspace.write(FILE, r#"{"socket": "/s", "command": ["ralph", "mcp", "/s/tools.json"]}"#);
        let command = tool_server_command(&workspace.task()).unwrap_or_default();
        assert_eq!(command, ["ralph", "mcp", "/s/tools.json"]);
    }
}
