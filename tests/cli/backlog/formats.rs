//! The three formats, end to end.

use std::process::Command;

use super::{environment, worked};

#[test]
fn checkboxes_are_worked_from_top_to_bottom_and_checked() {
    let env = environment("plan-md", "plan.md", "");
    env.write(
        "plan.md",
        "# Plan\n\n- [x] Old\n- [ ] First thing\n- [ ] Second thing\n\nMore text.\n",
    );
    env.run().expect(0).says("3/3 (100.0%)");
    assert_eq!(
        env.read("plan.md"),
        "# Plan\n\n- [x] Old\n- [x] First thing\n- [x] Second thing\n\nMore text.\n"
    );
    assert_eq!(worked(&env).len(), 2);
    let given = String::from_utf8(env.agent.stdin(1)).unwrap();
    assert!(given.contains("# Current item: First thing\n"), "{given}");
}

#[test]
fn stories_of_a_prd_are_worked_lowest_priority_first() {
    let env = environment("json", "prd.json", "");
    let story = |id: &str, priority: u32| {
        serde_json::json!({"id": id, "title": format!("Story {id}"), "description": "",
            "acceptanceCriteria": ["it works"], "priority": priority, "passes": false, "notes": ""})
    };
    let prd = serde_json::json!({"project": "p", "branchName": "b", "description": "d",
        "userStories": [story("US-1", 2), story("US-2", 1)]});
    env.write("prd.json", serde_json::to_string_pretty(&prd).unwrap());
    env.run().expect(0);
    assert_eq!(worked(&env), ["US-2", "US-1"]);
    assert!(!env.read("prd.json").contains("\"passes\": false"));
}

/// A Python script that makes AutoCoder's database with three features, the first of which is worked on last.
pub(crate) const FEATURES_DB: &str = "import sqlite3
db = sqlite3.connect('features.db')
db.execute('''CREATE TABLE features (id INTEGER PRIMARY KEY, priority INTEGER NOT NULL,
 category VARCHAR(100) NOT NULL, name VARCHAR(255) NOT NULL, description TEXT NOT NULL,
 steps JSON NOT NULL, passes BOOLEAN NOT NULL DEFAULT 0, in_progress BOOLEAN NOT NULL DEFAULT 0,
 dependencies JSON)''')
for row in [(1, 3), (2, 1), (3, 1)]:
    db.execute('INSERT INTO features VALUES (?, ?, \"c\", ?, \"d\", ?, 0, 0, NULL)',
               (row[0], row[1], f'F{row[0]}', '[\"step\"]'))
db.commit()
";

#[test]
fn features_of_a_database_are_worked_by_priority_then_id() {
    let env = environment("sqlite", "features.db", "");
    let made =
        Command::new("python3").args(["-c", FEATURES_DB]).current_dir(env.workspace()).status();
    assert!(made.unwrap().success());
    env.run().expect(0).says("3/3 (100.0%)");
    assert_eq!(worked(&env), ["2", "3", "1"]);
    let next = env.ralph(&["next", "--json"]).expect(0);
    let next: serde_json::Value = serde_json::from_str(&next.stdout).unwrap();
    assert_eq!(
        (next["next"].as_str(), next["items"]["completed"].as_u64()),
        (Some("complete"), Some(3))
    );
}
