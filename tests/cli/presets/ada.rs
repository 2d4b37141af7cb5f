//! `preset = "ada"`, from an empty folder to completion, as its document has it.

use std::path::Path;

use super::{given, preset};
use crate::environment::TestEnvironment;

/// What the initializer leaves: two features, the second one after the first, `init.sh` and a commit.
const PREPARE: &str = r#"cat > feature-list.json <<'END'
{
  "project_name": "shop",
  "project_path": ".",
  "features": [
    {
      "id": "user-cart",
      "name": "User Cart",
      "description": "A cart.",
      "status": "pending",
      "priority": 90,
      "acceptance_criteria": ["made-user-cart exists"],
      "depends_on": ["user-auth"],
      "owner": "kept as it is"
    },
    {
      "id": "user-auth",
      "name": "User Authentication",
      "description": "Log in.",
      "status": "pending",
      "priority": 10,
      "acceptance_criteria": ["made-user-auth exists"],
      "depends_on": []
    }
  ]
}
END
printf '#!/bin/sh\necho ready >> .git/prepared\n' > init.sh
chmod +x init.sh
git add -A && git -c user.name=a -c user.email=a@b commit -qm prepared
"#;

fn git(env: &TestEnvironment, args: &[&str]) -> String {
    let done = env.program(Path::new("git")).args(args).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn project() -> TestEnvironment {
    let env = preset(
        "ada",
        "[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"-c\", \"test -e made-user-auth\"]\n",
    );
    env.write("PROMPT.md", "# A shop\n\nWith a cart.\n");
    env.write(
        "ralph.toml",
        env.read("ralph.toml").replace("[run]\n", "[run]\nprompt = \"PROMPT.md\"\n"),
    );
    git(&env, &["init", "-q"]);
    env
}

#[test]
fn the_initializer_prepares_and_each_feature_is_a_session_after_those_that_it_needs() {
    let env = project();
    env.agent.call(1).script(PREPARE).out("prepared\n");
    env.agent.call(2).script(": > made-user-auth\n");
    env.agent.call(2).out("<promise>COMPLETE: people can log in</promise>\n");
    // As agents of ADA do it: the status in the list is the claim.
    let mark = "sed -i 's/\"in_progress\"/\"completed\"/' feature-list.json\n";
    env.agent.call(3).script(&format!(": > made-user-cart\n{mark}")).out("done\n");
    let ended = env.run().expect(0);
    ended.says("initialized").says("2/2 (100.0%)");
    assert_eq!(env.agent.calls(), 3);

    let first = given(&env, 1);
    assert!(first.contains("prepare a project") && first.contains("# A shop"), "{first}");
    assert!(first.contains("feature-list.json"), "its form is shown: {first}");
    assert!(given(&env, 2).contains("Id: user-auth"), "before the one that needs it");
    let third = given(&env, 3);
    assert!(third.contains("Id: user-cart"), "{third}");
    assert!(third.contains("people can log in"), "what was done before: {third}");
    // Only statuses changed.
    let list = env.read("feature-list.json");
    let before = PREPARE.split("END").nth(1).unwrap().trim_start_matches("'\n");
    assert_eq!(list.replace("\"completed\"", "\"pending\""), before);
    assert_eq!(env.read(".git/prepared"), "ready\nready\n", "before each session that works");
}

#[test]
fn each_session_is_written_down_in_the_documented_form() {
    let env = project();
    env.agent.call(1).script(PREPARE).out("prepared\n");
    env.agent.default_call().script(": > made-user-auth; : > made-user-cart\n");
    env.agent.default_call().out("<promise>COMPLETE: made</promise>\n");
    env.run().expect(0);
    let text = env.read("claude-progress.txt");
    let rule = "=".repeat(60);
    let entries: Vec<&str> = text.split(&format!("{rule}\n")).skip(1).collect();
    let form = regex::Regex::new(
        r"\A\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] Session: s(\d{3})_\d{6}\nAction: (\w+)\n(Feature: (\S+)\n)?\n\S",
    )
    .unwrap();
    let actions: Vec<String> = entries
        .iter()
        .map(|entry| {
            let found = form.captures(entry).unwrap_or_else(|| panic!("{entry}"));
            let feature = found.get(4).map_or("-", |feature| feature.as_str());
            format!("{} {} {feature}", &found[1], &found[2])
        })
        .collect();
    assert_eq!(
        actions,
        [
            "001 session_started -",
            "001 session_ended -",
            "002 session_started user-auth",
            "002 session_ended user-auth",
            "002 feature_completed user-auth",
            "003 session_started user-cart",
            "003 session_ended user-cart",
            "003 feature_completed user-cart",
        ]
    );
}

#[test]
fn what_the_initializer_did_not_make_is_named_and_three_attempts_are_all() {
    let env = project();
    env.agent.default_call().out("I am prepared.\n");
    env.run().expect(1).says("init_failed").says("feature-list.json").says("init.sh");
    assert_eq!(env.agent.calls(), 3);
    assert!(given(&env, 2).contains("Still missing:"), "{}", given(&env, 2));
}
