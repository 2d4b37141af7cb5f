//! Prompts of roles: which file wins, what of it the agent is given, and what the initializer has to produce.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::environment::TestEnvironment;

const CODING: &str = "prompts/coding.md";
const TEMPLATE: &str = ".claude/templates/coding.template.md";
const FILES_ONLY: &str =
    "paths = [\"{project}/prompts/{name}.md\", \".claude/templates/{name}.template.md\"]\n";
/// What a template would replace, and what an editor could.
const RAW: &[u8] =
    b"\xef\xbb\xbfDo {x} in $HOME, {{ y }} and {% raw %}.\r\nGr\xc3\xbc\xc3\x9fe \xff";

/// A run whose prompts are those of roles; nothing follows them.
fn environment(prompts: &str, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n{more}\n[prompts]\n{prompts}\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n[completion]\ninstructions = \"never\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\nmax_iterations = 3\nmax_stagnant = 99\n"
    ));
    env
}

fn starts(env: &TestEnvironment, field: &str) -> Vec<String> {
    let text = |start: &Value| start[field].as_str().unwrap_or_default().to_owned();
    env.records("iteration_started").iter().map(text).collect()
}

#[test]
fn the_first_file_of_the_chain_is_given_byte_for_byte() {
    for file in [CODING, TEMPLATE] {
        let env = environment(FILES_ONLY, "");
        env.write(TEMPLATE, "of the template\n").write(file, RAW);
        env.run().expect(1);
        for call in 1..=3 {
            assert_eq!(env.agent.stdin(call), RAW, "{file}");
        }
        let path = env.path(file).display().to_string();
        assert!(starts(&env, "prompt_file").iter().all(|file| *file == path));
        assert_eq!(starts(&env, "role"), ["coding"; 3]);
        assert_eq!(starts(&env, "prompt")[0], blake3::hash(RAW).to_hex().to_string());
        env.ralph(&["log"]).expect(0).says(&format!("as coding, prompt {path}"));
        assert_eq!(env.ralph(&["prompts", "which", "coding"]).expect(0).stdout.trim(), path);
    }
}

#[test]
fn a_role_without_any_file_starts_nothing_and_names_all_paths() {
    let env = environment(FILES_ONLY, "");
    let (first, second) = (env.path(CODING), env.path(TEMPLATE));
    for command in [&["run"][..], &["config", "check"], &["prompts", "which", "coding"]] {
        let ended = env.ralph(command).expect(78);
        ended.says(&first.display().to_string()).says(&second.display().to_string());
    }
    env.run().expect(78).says("ralph.toml:").says("prompts.paths");
    assert_eq!(env.agent.calls(), 0);
    env.write(CODING, " \n");
    env.run().expect(78).says("is empty");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn the_built_in_prompt_can_be_ejected_and_edited() {
    let env = environment("", "");
    env.ralph(&["prompts", "which", "coding"]).expect(0).says("built-in");
    env.run().expect(1);
    let built_in = env.agent.stdin(1);
    assert!(String::from_utf8(built_in.clone()).unwrap().contains("Do one thing"));
    env.ralph(&["prompts", "eject", "coding"]).expect(0).says("coding.md: written");
    assert_eq!(env.read(CODING).into_bytes(), built_in);
    env.ralph(&["prompts", "eject", "coding"]).expect(64).says("already exists");
    let json = env.ralph(&["prompts", "which", "coding", "--json"]).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["built_in"], &json["role"]), (&Value::Bool(false), &Value::from("coding")));
    env.write(CODING, "mine\n");
    env.ralph(&["run", "--restart"]).expect(1);
    assert_eq!(env.agent.stdin(4), b"mine\n");
    env.ralph(&["prompts", "which", "codng"]).expect(64).says("roles are: initializer, coding");
}

#[test]
fn prompts_have_names_of_their_own() {
    let names = format!("{FILES_ONLY}names = {{ coding = \"coding_prompt\" }}\n");
    let env = environment(&names, "");
    env.write("prompts/coding_prompt.md", "by name\n");
    env.run().expect(1);
    assert_eq!(env.agent.stdin(1), b"by name\n");
    let path = env.path("prompts/coding_prompt.md").display().to_string();
    env.ralph(&["prompts", "which", "coding_prompt"]).expect(0).says(&path);
    for (bad, says) in [
        ("paths = []", "without a path"),
        ("paths = [\"prompts/coding.md\"]", "`{name}`"),
        ("paths = [\"built-in\", \"{name}.md\"]", "nothing can follow it"),
        ("paths = [\"{nme}/{name}.md\"]", "no braces but"),
        ("names = { coding = \"../x\" }", "name of a file"),
        ("names = { codng = \"x\" }", "codng"),
        ("agents = { coding = \"nobody\" }", "no agent called"),
    ] {
        let env = environment(bad, "");
        env.ralph(&["config", "check"]).expect(78).says(says);
    }
}

#[test]
fn the_file_is_read_again_and_a_change_is_reported() {
    let env = environment(FILES_ONLY, "");
    env.write(CODING, "one\n").write(TEMPLATE, "template\n");
    env.agent.call(1).script("echo two >> prompts/coding.md\n");
    env.agent.call(2).script("rm prompts/coding.md\n");
    let ended = env.run().expect(1);
    assert_eq!(env.agent.stdin(2), b"one\ntwo\n");
    assert_eq!(env.agent.stdin(3), b"template\n");
    ended.says("the prompt of the role `coding` was changed: ");
    env.ralph(&["why"]).expect(0).says("as coding, agent ended");
    let files = starts(&env, "prompt_file");
    assert_eq!(files[1], env.path(CODING).display().to_string());
    assert_eq!(files[2], env.path(TEMPLATE).display().to_string());
    let given: Vec<Value> =
        env.records("iteration_started").iter().map(|start| start["given"].clone()).collect();
    assert_ne!(given[0]["role"], given[1]["role"]);
    assert_ne!(given[1]["role"], given[2]["role"]);
    // An edit of a prompt is no work.
    let trees: Vec<String> =
        env.records("observed").iter().map(|o| o["tree"].as_str().unwrap().to_owned()).collect();
    assert!(trees.iter().all(|tree| *tree == trees[0]), "{trees:?}");
}

#[test]
fn a_prompt_that_may_not_be_edited_is_put_back() {
    let env = environment(FILES_ONLY, "prompt_editable = false");
    env.write(CODING, "mine\n");
    env.agent.call(1).script("echo 'and yours' >> prompts/coding.md\n");
    env.agent.call(2).script("rm -r prompts\n");
    env.run().expect(1).says("was edited, which run.prompt_editable = false forbids");
    for call in 1..=3 {
        assert_eq!(env.agent.stdin(call), b"mine\n");
    }
}

/// Whoever reads here may read more than the agent.
#[test]
fn a_link_that_is_made_later_is_not_followed() {
    let env = environment(FILES_ONLY, "");
    let secret = env.root().join("secret");
    fs::write(&secret, "nobody's business\n").unwrap();
    env.write(CODING, "mine\n");
    let link = format!("ln -sf {} prompts/coding.md\n", secret.display());
    env.agent.call(1).script(&link);
    env.run().expect(1).says("is a link").says("given as it was last");
    for call in 1..=3 {
        assert_eq!(env.agent.stdin(call), b"mine\n");
    }
    // Nor by the next start, which puts back what the run knew.
    fs::remove_file(env.path(CODING)).unwrap();
    symlink(&secret, env.path(CODING)).unwrap();
    env.ralph(&["run", "--max-iterations", "4"]).expect(1).says("it was put back");
    assert_eq!(env.agent.stdin(4), b"mine\n");
    assert_eq!(env.read(CODING), "mine\n");
}

#[test]
fn a_link_that_an_agent_has_made_is_no_prompt_of_a_later_run() {
    let env = environment("", "");
    let secret = env.root().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("coding.md"), "nobody's business\n").unwrap();
    env.agent.call(1).script(&format!("ln -s {} prompts\n", secret.display()));
    env.run().expect(1);
    let built_in = env.agent.stdin(1);
    env.ralph(&["run", "--restart"]).expect(1).says("it is passed over");
    assert_eq!(env.agent.stdin(4), built_in);
    env.ralph(&["trust", "prompts"]).expect(0).says("is a link to");
    env.ralph(&["run", "--restart"]).expect(1);
    assert_eq!(env.agent.stdin(7), b"nobody's business\n");
}

#[test]
fn templates_are_rendered_and_an_unknown_name_starts_nothing() {
    let env =
        environment(&format!("{FILES_ONLY}template = true\n"), "prompt_text = \"the {{ task }}\"");
    env.write(CODING, "{{ role }} {{ iteration }}/{{ max_iterations }} {name}\n{{ task }}\n");
    env.run().expect(1);
    assert_eq!(env.agent.stdin(2), b"coding 2/3 {name}\nthe {{ task }}\n");
    let path = env.path(CODING).display().to_string();
    for (bad, says) in [
        ("a\n{% if iteration > 9 %}{{ itreation }}{% endif %}", ":2: unknown variable `itreation`"),
        ("{{ iteration", ":1: "),
        ("a\nb\n{{ iteration | upper }}", ":3: "),
    ] {
        env.write(CODING, bad);
        let calls = env.agent.calls();
        let ended = env.ralph(&["run", "--restart"]).expect(78);
        ended.says("prompts.template").says(&format!("{path}{says}"));
        env.ralph(&["config", "check"]).expect(78);
        assert_eq!(env.agent.calls(), calls);
    }
}

#[test]
fn the_task_follows_the_prompt_of_the_role() {
    let env = environment(FILES_ONLY, "prompt = \"PROMPT.md\"");
    env.write(CODING, "role").write("PROMPT.md", "task\n");
    env.agent.call(1).script("echo more >> PROMPT.md\n");
    env.run().expect(1);
    assert_eq!(env.agent.stdin(1), b"role\n\n---\n\ntask\n");
    assert_eq!(env.agent.stdin(2), b"role\n\n---\n\ntask\nmore\n");
}

#[test]
fn yolo_takes_its_own_prompt_and_keeps_all_limits() {
    let env = environment(FILES_ONLY, "");
    env.write(CODING, "with browser\n").write("prompts/yolo.md", "without\n");
    env.ralph(&["run", "--yolo"]).expect(1).says("as yolo").says("max_iterations");
    assert_eq!(env.agent.stdin(1), b"without\n");
    assert_eq!(env.agent.calls(), 3);
    let set = environment(FILES_ONLY, "role = \"yolo\"");
    set.write("prompts/yolo.md", "without\n");
    set.run().expect(1);
    assert_eq!(set.agent.stdin(1), b"without\n");
    let without = TestEnvironment::new();
    without.ralph(&["run", "--yolo"]).expect(78).says("there is no `[prompts]`");
    without.ralph(&["prompts", "which", "coding"]).expect(78).says("has no `[prompts]`");
    assert_eq!(without.agent.calls(), 0);
}

fn initializer(more: &str) -> TestEnvironment {
    let env = environment(FILES_ONLY, "");
    let config = env.read("ralph.toml").replace("max_iterations = 3", "max_iterations = 6");
    env.write(
        "ralph.toml",
        format!(
            "{config}[initializer]\nproducts = [\"list.json\"]\nexecutables = [\"init.sh\"]\ncommit = true\n{more}"
        ),
    );
    env.write("prompts/initializer.md", "prepare\n").write(CODING, "work\n");
    env
}

const LIST: &str = "echo '[]' > list.json\n";
const SCRIPT: &str = "printf '#!/bin/sh\\n' > init.sh; chmod +x init.sh\n";
const COMMIT: &str =
    "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm init\n";

#[test]
fn the_initializer_runs_until_its_products_are_there_and_never_again() {
    let env = initializer("");
    env.agent.call(1).script(LIST);
    env.agent.call(2).script(&format!("{SCRIPT}{COMMIT}"));
    // What is gone later is the work of others.
    env.agent.call(3).script("rm list.json\n");
    env.agent.call(5).script("touch done\n").out("<promise>COMPLETE: it is</promise>\n");
    let plan = env.ralph(&["run", "--dry-run"]).expect(0);
    plan.says("  role        initializer, prompt ").says("  role        coding, prompt ");
    plan.says("  initializer at most 3 attempts, until there is list.json, init.sh (executable), a commit");
    env.run().expect(0).says("as initializer");
    assert_eq!(starts(&env, "role"), ["initializer", "initializer", "coding", "coding", "coding"]);
    assert_eq!(env.agent.stdin(1), b"prepare\n");
    let again = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(again.contains("- init.sh: does not exist"), "{again}");
    assert!(again.contains("- git: the workspace is in no repository with a commit"), "{again}");
    assert!(!again.contains("list.json") && again.ends_with("---\n\nprepare\n"), "{again}");
    assert_eq!(env.agent.stdin(3), b"work\n");
    assert_eq!(env.records("initialized")[0]["iteration"], 2);
    env.ralph(&["log"]).expect(0).says("initialized in iteration 2");
}

#[test]
fn an_initializer_that_never_finishes_stops_the_run() {
    let env = initializer("max_attempts = 2\n");
    env.agent.default_call().script(LIST);
    let ended = env.run().expect(1);
    ended.says("init.sh: does not exist").says("initializer.max_attempts");
    assert_eq!(env.agent.calls(), 2);
    assert_eq!(env.status()["stop_reason"], "init_failed");
    env.ralph(&["why"]).expect(0).says("init_failed");
    // Nor does it begin once more; but what somebody else produces counts.
    env.run().expect(1);
    assert_eq!(env.agent.calls(), 2);
    let script = format!("cd {}\n{LIST}{SCRIPT}{COMMIT}", env.workspace().display());
    let sh = env.program("/bin/sh".as_ref()).args(["-c", &script]).status().unwrap();
    assert!(sh.success());
    env.agent.call(3).script("touch done\n").out("<promise>COMPLETE: it is</promise>\n");
    env.run().expect(0);
    assert_eq!(env.agent.stdin(3), b"work\n");
}

#[test]
fn products_that_are_there_need_no_initializer() {
    let env = initializer("");
    let script = format!("cd {}\n{LIST}{SCRIPT}{COMMIT}", env.workspace().display());
    assert!(env.program("/bin/sh".as_ref()).args(["-c", &script]).status().unwrap().success());
    env.ralph(&["run", "--once"]).expect(0);
    assert_eq!(starts(&env, "role"), ["coding"]);
    env.ralph(&["log"]).expect(0).says("the initializer's products are there already");
}

/// What it says of being done is not about the task.
#[test]
fn a_claim_of_the_initializer_completes_nothing() {
    let env = initializer("");
    let config = env.read("ralph.toml");
    let (before, after) = config.split_once("[[validator]]").unwrap();
    let (_, after) = after.split_once("[limits]").unwrap();
    env.write("ralph.toml", format!("{before}trust_agent = true\n[limits]{after}"));
    let claim = "<promise>COMPLETE: all of it</promise>\n";
    env.agent.call(1).script(&format!("{LIST}{SCRIPT}{COMMIT}")).out(claim);
    env.agent.call(2).out(claim);
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 2);
    assert_eq!(starts(&env, "role"), ["initializer", "coding"]);
    assert_eq!(env.records("claimed").len(), 1);
}

/// Killed while it works, it is one attempt less only if it came to its end.
#[test]
fn an_initializer_that_was_killed_begins_again() {
    let env = initializer("max_attempts = 1\n");
    let fifo = env.fifo("begun");
    env.agent.call(1).script(&format!("{LIST}echo x > '{}'; sleep 1000 & wait\n", fifo.display()));
    env.agent.call(2).script(&format!("{SCRIPT}{COMMIT}"));
    env.agent.call(3).script("touch done\n").out("<promise>COMPLETE: it is</promise>\n");
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    env.run().expect(0);
    assert_eq!(starts(&env, "role"), ["initializer", "initializer", "coding"]);
    assert_eq!(env.records("initialized").len(), 1);
}

#[test]
fn roles_can_have_agents_of_their_own() {
    let env = initializer("");
    let config = env
        .read("ralph.toml")
        .replace("[agent]\n", "agents = { initializer = \"first\" }\n[agent]\n");
    let agent = env.agent.program().display().to_string();
    env.write(
        "ralph.toml",
        format!(
            "{config}[agents.first]\nadapter = \"command\"\nunmetered = true\n\
             [agents.first.config]\nprogram = [\"{agent}\", \"--big\"]\n"
        ),
    );
    env.agent.call(1).script(&format!("{LIST}{SCRIPT}{COMMIT}"));
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    assert_eq!((env.agent.argv(1), env.agent.argv(2)), (vec!["--big".to_owned()], vec![]));
    assert_eq!(starts(&env, "agent"), ["first", "command"]);
}

#[test]
fn an_initializer_without_products_is_refused() {
    for (table, says) in [
        ("[initializer]\n", "nothing to produce"),
        ("[initializer]\nproducts = [\"../x\"]\n", "within the workspace"),
        ("[initializer]\ncommit = true\nmax_attempts = 0\n", "at least 1"),
    ] {
        let env = environment("", "");
        env.write("ralph.toml", format!("{}{table}", env.read("ralph.toml")));
        env.run().expect(78).says(says);
    }
    let env = TestEnvironment::new();
    env.config("[initializer]\ncommit = true\n");
    env.run().expect(78).says("there is no `[prompts]`");
}

/// A session of Claude Code that ends well and claims nothing.
const SESSION: &str = "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\
     \"api_error_status\":null,\"terminal_reason\":\"completed\",\"result\":\"ok\",\
     \"total_cost_usd\":0.01,\"usage\":{}}\n";

/// Roles with agents of their own: each with its tools, turns, model and system prompt.
fn claude_roles() -> TestEnvironment {
    let env = TestEnvironment::new();
    let agent = |name: &str, keys: &str| {
        format!(
            "[agents.{name}]\nadapter = \"claude-cli\"\n[agents.{name}.config]\nprogram = \"@AGENT@\"\n{keys}\n"
        )
    };
    let browser = "\"Bash\", \"mcp__features__next\", \"mcp__playwright__click\"";
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[prompts]\n\
         agents = {{ initializer = \"first\", coding = \"worker\", yolo = \"fast\" }}\n\
         [initializer]\nproducts = [\"list\"]\n\
         [agent]\nadapter = \"claude-cli\"\n[agent.config]\nprogram = \"@AGENT@\"\n{}{}{}\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [env]\nset = {{ IS_SANDBOX = \"1\" }}\n\
         [limits]\nmax_iterations = 4\nmax_cost_usd = \"none\"\nmax_stagnant = 99\n",
        agent("first", "model = \"opus\"\nmax_turns = 300\nallowed_tools = [\"Write\"]"),
        agent(
            "worker",
            &format!(
                "model = \"sonnet\"\nmax_turns = 1000\nallowed_tools = [{browser}]\n\
                 system_prompt = \"You are an expert full-stack developer.\""
            )
        ),
        agent("fast", "model = \"haiku\"\nmax_turns = 100\nallowed_tools = [\"Bash\", \"mcp__features__next\"]"),
    ));
    env.agent.default_call().script(
        "case \"$1\" in --version) echo '2.1.200 (Claude Code)'; exit 0;; esac\necho x > list\n",
    );
    env.agent.default_call().out(SESSION);
    env
}

/// The arguments of each session, without those that are always given.
fn sessions(env: &TestEnvironment) -> Vec<String> {
    let calls = (1..=env.agent.calls()).map(|call| env.agent.argv(call));
    let sessions = calls.filter(|argv| argv.first().is_some_and(|word| word == "-p"));
    sessions.map(|argv| argv[4..].join(" ")).collect()
}

#[test]
fn each_role_has_its_own_tools_turns_model_and_system_prompt_in_every_iteration() {
    let env = claude_roles();
    env.run().expect(1);
    let worker = "--model sonnet --permission-mode bypassPermissions \
                  --allowedTools Bash,mcp__features__next,mcp__playwright__click \
                  --append-system-prompt You are an expert full-stack developer. --max-turns 1000";
    let first =
        "--model opus --permission-mode bypassPermissions --allowedTools Write --max-turns 300";
    assert_eq!(sessions(&env), [first, worker, worker, worker]);
    assert_eq!(starts(&env, "model"), ["opus", "sonnet", "sonnet", "sonnet"]);
    let starts = env.records("iteration_started");
    assert_eq!(starts[1]["given"]["argv"], starts[3]["given"]["argv"]);
    assert_eq!(starts[1]["given"]["config"], starts[3]["given"]["config"]);
    // Another system prompt is another thing that is given.
    let config = env.read("ralph.toml").replace("expert full-stack", "careful");
    env.write("ralph.toml", config);
    env.ralph(&["run", "--max-iterations", "5"]).expect(1);
    let again = env.records("iteration_started").pop().unwrap();
    assert_ne!(starts[3]["given"]["argv"], again["given"]["argv"]);
    assert_ne!(starts[3]["fingerprint"], again["fingerprint"]);
}

#[test]
fn yolo_leaves_the_tools_of_the_browser_out() {
    let env = claude_roles();
    env.write("list", "there\n");
    env.ralph(&["run", "--yolo"]).expect(1);
    let fast = "--model haiku --permission-mode bypassPermissions \
                --allowedTools Bash,mcp__features__next --max-turns 100";
    assert_eq!(sessions(&env), [fast; 4]);
}

#[test]
fn an_agent_without_a_system_prompt_refuses_one() {
    let env = TestEnvironment::new();
    let config = env.read("ralph.toml");
    env.write(
        "ralph.toml",
        config.replace("[agent.config]\n", "[agent.config]\nsystem_prompt = \"x\"\n"),
    );
    env.run().expect(78).says("system_prompt");
    assert_eq!(env.agent.calls(), 0);
}
