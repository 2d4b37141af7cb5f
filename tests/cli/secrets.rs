//! What is passed to the agent by name is written down and shown nowhere.

use std::fs;
use std::path::Path;

use crate::environment::{Ended, TestEnvironment};
use crate::terminal::on_terminal;

const SECRET: &str = "hunter2-\"quoted\"-value";

/// Every file beneath that holds the secret, in any form that it takes.
fn leaks(folder: &Path) -> Vec<String> {
    let json = serde_json::to_string(SECRET).unwrap();
    let forms = [SECRET, json.trim_matches('"')];
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(leaks(&path));
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        if forms.iter().any(|form| text.contains(form)) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn environment(validator: &str) -> TestEnvironment {
    let mut env = TestEnvironment::new();
    env.config(&format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"talks\"\nprogram = [\"sh\", \"-c\", '''{validator}''']\n\
         [env]\npass = [\"MINE\"]\n[limits]\nmax_failures = 1\nmax_iterations = 2\n"
    ));
    env.var("MINE", SECRET);
    env
}

#[track_caller]
fn kept(env: &TestEnvironment, ended: &Ended) {
    assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    assert_eq!(leaks(&env.state()), <[&str; 0]>::default());
}

#[test]
fn a_secret_in_text_claim_stderr_and_a_validators_output_is_starred() {
    for json in [false, true] {
        let env = environment("echo \"it is $MINE\"; exit 1");
        env.write("done", "");
        let script = "test \"${#MINE}\" = 22 || exit 9; echo \"err $MINE\" >&2; echo \"out $MINE\"; \
                      echo \"<promise>COMPLETE: with $MINE</promise>\"\n";
        env.agent.default_call().script(script);
        let ended = env.ralph(if json { &["run", "--json"] } else { &["run", "-v"] }).expect(1);
        kept(&env, &ended);
        let journal = fs::read_to_string(env.journal_path()).unwrap();
        assert!(journal.contains("with ***") && journal.contains("it is ***"), "{journal}");
        let first = env.journal_path().with_file_name("iterations/0001");
        let transcript = fs::read_to_string(first.join("transcript.jsonl")).unwrap();
        assert!(transcript.contains("out ***"), "{transcript}");
        assert_eq!(fs::read_to_string(first.join("stderr.log")).unwrap(), "err ***\n");
        let second = String::from_utf8(env.agent.stdin(2)).unwrap();
        assert!(second.contains("it is ***"), "{second}");
    }
}

#[test]
fn a_secret_in_an_error_is_starred() {
    let env = environment("exit 0");
    env.agent.default_call().script("echo \"no access with $MINE\" >&2; exit 3\n");
    let ended = env.run().expect(1);
    kept(&env, &ended);
    let ends = env.records("iteration_ended");
    assert!(ends[0].to_string().contains("no access with ***"), "{ends:?}");
}

/// Files beneath that have a part of a secret of the next test in them.
fn find_hunters(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for path in entries {
        let name = path.display().to_string();
        if path.is_dir() {
            found.extend(find_hunters(&path));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains("hunter2") {
            found.push(name);
        }
    }
    found
}

/// Whatever the variables are called, and wherever their values stand: in the configuration, in an address, in the name
/// of a file that the agent, a check or the user made.
#[test]
fn what_is_passed_and_set_is_starred_whatever_its_name_and_where_it_stands() {
    let mut env = TestEnvironment::new();
    let check = "test \"$PLAIN\" = hunter2-plain || exit 9; ls; touch \"left-$PLAIN\"; exit 1";
    env.config(&format!(
        "protect = [\"kept/**\"]\n[[validator]]\nkind = \"command\"\nname = \"talks\"\n\
         program = [\"sh\", \"-c\", '''{check}''']\n[limits]\nmax_iterations = 2\n\
         [env]\npass = [\"ADDRESS\"]\n[env.set]\nPLAIN = \"hunter2-plain\"\n\
         WHERE = \"postgres://me:hunter2-in-url@db/prod\"\nMODE = \"short\"\n"
    ));
    env.var("ADDRESS", "hunter2-address");
    env.write("kept/hunter2-address", "").write("hunter2-plain/kept", "").write("done", "");
    env.agent.default_call().script(
        "test \"$MODE\" = short || exit 9\necho \"$PLAIN $WHERE $ADDRESS hunter2-in-url\" | tee /dev/stderr\n\
         for name in \"$PLAIN\" \"$ADDRESS\" hunter2-in-url; do echo $$ > \"made-$name\"; done\n\
         echo \"<promise>COMPLETE: with $PLAIN</promise>\"\n",
    );
    let kept_nowhere = |args: &[&str]| {
        let ended = env.ralph(args);
        assert!(!ended.stdout.contains("hunter2"), "{args:?}: {}", ended.stdout);
        assert!(!ended.stderr.contains("hunter2"), "{args:?}: {}", ended.stderr);
        assert_eq!(find_hunters(&env.state()), <[&str; 0]>::default(), "{args:?}");
        ended
    };
    kept_nowhere(&["run", "-v"]).expect(1);
    // What is needed again is there.
    kept_nowhere(&["run", "--json", "--max-iterations", "3"]).expect(1);
    let ends = env.records("iteration_ended");
    assert_eq!(ends.len(), 3, "{ends:?}");
    assert!(ends.iter().all(|end| end["outcome"]["type"] == "succeeded"), "{ends:?}");
    assert!(!format!("{:?}", env.records("validated")).contains("ended with exit 9"));
    for command in [
        &["config", "show"][..],
        &["config", "show", "--json"],
        &["log", "--json"],
        &["log", "2", "--prompt"],
        &["status", "--json"],
        &["why", "--json"],
        &["verify", "--json"],
    ] {
        kept_nowhere(command);
    }
    let shown = env.ralph(&["config", "show"]).expect(0);
    shown.says("env.set.PLAIN = \"***\"").says("env.set.MODE = \"short\"");
    let config = fs::read_to_string(env.journal_path().with_file_name("config.toml")).unwrap();
    assert!(config.contains("PLAIN = \"***\""), "{config}");
    // Without what it needs it does not go on with `***`.
    fs::remove_file(env.journal_path().with_file_name("config.sealed")).unwrap();
    env.ralph(&["run", "--max-iterations", "4"]).expect(65);
}

/// With characters that URLs, JSON and base64 for URLs write differently; 36 characters.
const KEY: &str = "Tk9/wQz+7Lr=Vb&2Xm?Ye~4Hs/c3Jd8Gf6Pa";
/// So many characters of it in a row are too many.
const TOO_MANY: usize = 10;

/// What is left of a value in everything that was kept and shown, whatever stands between.
fn rest_of(value: &str, env: &TestEnvironment, ended: &Ended) -> Vec<String> {
    let mut texts = vec![ended.stdout.clone(), ended.stderr.clone()];
    let mut folders = vec![env.state()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                texts.push(String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned());
            }
        }
    }
    let squeezed = |text: &str| {
        let lines = text.replace("\\n", "\n");
        lines.lines().map(str::trim).collect::<String>()
    };
    let texts: Vec<String> = texts.iter().flat_map(|text| [text.clone(), squeezed(text)]).collect();
    let pieces = value.as_bytes().windows(TOO_MANY).map(|piece| String::from_utf8_lossy(piece));
    pieces
        .filter(|piece| texts.iter().any(|text| text.contains(piece.as_ref())))
        .map(std::borrow::Cow::into_owned)
        .collect()
}

/// Everything that a shell makes of the key, by the name that a test gives it.
const FORMS: [(&str, &str); 9] = [
    ("base64", "printf %s \"$MINE\" | base64 -w0"),
    ("base64, one byte later", "printf x%s \"$MINE\" | base64 -w0"),
    ("base64, two bytes later", "printf xy%s \"$MINE\" | base64 -w0"),
    ("base64 for URLs", "printf %s \"$MINE\" | base64 -w0 | tr +/ -_ | tr -d ="),
    ("base64 in lines", "printf %s \"$MINE\" | base64 -w 20"),
    ("hex", "printf %s \"$MINE\" | od -An -v -tx1 | tr -d ' \\n'"),
    ("HEX", "printf %s \"$MINE\" | od -An -v -tx1 | tr -d ' \\n' | tr a-f A-F"),
    ("URL", "printf %s \"$MINE\" | sed 's,/,%2F,g; s,+,%2B,g; s,=,%3D,g; s,&,%26,g; s,?,%3F,g'"),
    ("url", "printf %s \"$MINE\" | sed 's,/,%2f,g; s,+,%2b,g; s,=,%3d,g; s,&,%26,g; s,?,%3f,g'"),
];

fn shell(script: &str) -> String {
    let output = std::process::Command::new("sh").args(["-c", script]).env("MINE", KEY).output();
    String::from_utf8(output.unwrap().stdout).unwrap().split_whitespace().collect()
}

fn keyed(validator: &str) -> TestEnvironment {
    let mut env = environment(validator);
    env.unset("MINE");
    env.var("MINE", KEY);
    env
}

#[test]
fn other_forms_of_a_secret_are_starred_wherever_they_are_printed() {
    for (name, form) in FORMS {
        let env = keyed(&format!("echo \"found $({form})\"; exit 1"));
        env.write("done", "");
        env.agent.default_call().script(&format!(
            "form=$({form})\necho \"err $form\" >&2; echo \"out $form\"\n\
             echo \"<promise>COMPLETE: with $form</promise>\"\n"
        ));
        let ended = env.ralph(&["run", "-v"]).expect(1);
        assert_eq!(rest_of(&shell(form), &env, &ended), <[&str; 0]>::default(), "{name}");
        let journal = fs::read_to_string(env.journal_path()).unwrap();
        assert!(journal.contains("***"), "{name}: {journal}");
    }
}

#[test]
fn a_secret_in_pieces_on_several_lines_is_starred() {
    let wrapped = "printf %s \"$MINE\" | fold -w 9 | sed 's/^/    /'";
    let env = keyed(&format!("echo \"found\"; {wrapped}; exit 1"));
    env.write("done", "");
    env.agent.default_call().script(&format!(
        "{{ echo err; {wrapped}; echo; }} >&2\necho out\n{wrapped}\n\
         echo; printf '{{\"json\":\"'; printf %s \"$MINE\" | fold -w 9 | sed -z 's/\\n/\\\\n/g'; echo '\"}}'\n"
    ));
    let ended = env.ralph(&["run", "-v"]).expect(1);
    assert_eq!(rest_of(KEY, &env, &ended), <[&str; 0]>::default());
}

#[test]
fn what_a_cut_leaves_of_a_secret_is_starred() {
    // A line that is cut within the secret, and the end of an output that begins within it.
    for (before, after) in [(65_516, 0), (0, 2028), (0, 4070), (492, 0), (0, 495)] {
        let print = format!(
            "head -c {before} /dev/zero | tr '\\0' x; printf %s \"$MINE\"; head -c {after} /dev/zero | tr '\\0' y; echo"
        );
        let env = keyed(&format!("{print}; exit 1"));
        env.write("done", "");
        env.agent.default_call().script(&format!("{{ {print}; }} >&2; exit 3\n"));
        env.agent.call(1).script("echo '<promise>COMPLETE: x</promise>'\n");
        let ended = env.ralph(&["run", "-v"]).expect(1);
        assert_eq!(rest_of(KEY, &env, &ended), <[&str; 0]>::default(), "{before} {after}");
    }
}

#[test]
fn a_secret_in_the_prompt_file_or_in_what_doctor_finds_is_starred() {
    let env = keyed("exit 0");
    env.agent.default_call().script("echo \"$MINE\" >> PROMPT.md\n");
    let ended = env.run().expect(1);
    assert_eq!(rest_of(KEY, &env, &ended), <[&str; 0]>::default());
}

/// An agent for which `--version` fails with this on its standard error.
fn unversioned(said: &str) -> TestEnvironment {
    let mut env = TestEnvironment::new();
    let script = format!("#!/bin/sh\nprintf '{said}' >&2\nexit 1\n");
    env.write("claude", script);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(env.path("claude"), mode).unwrap();
    env.raw_config(
        "[agent]\nadapter = \"claude-cli\"\n[agent.config]\nprogram = \"./claude\"\n\
         [completion]\ntrust_agent = true\n[env]\npass = [\"MINE\"]\n\
         set = { IS_SANDBOX = \"1\" }\n",
    );
    env.var("MINE", KEY);
    env
}

#[test]
fn what_a_program_says_of_its_version_steers_no_terminal_and_tells_no_secret() {
    let env = unversioned(
        "\\033]0;title\\007\\033[31mno \\302\\233mlicence\\033[0m for %s\\r' \"$MINE\" '",
    );
    for args in [&["run"][..], &["doctor"], &["doctor", "--json"]] {
        let ended = env.ralph(args).expect(69);
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(all.contains("no licence for ***"), "{all}");
        assert!(all.chars().all(|c| c == '\n' || !c.is_control()), "{all:?}");
    }
}

#[test]
fn raw_lines_steer_no_terminal_but_reach_a_pipe_as_they_came() {
    let mut env = TestEnvironment::new();
    let agent = env.agent.program().display().to_string();
    env.raw_config(&format!(
        "[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\nprogram = [\"{agent}\"]\n\
         output = \"claude-json\"\n[completion]\ntrust_agent = true\n[limits]\nmax_iterations = 1\n"
    ));
    env.unset("MINE");
    env.agent.default_call().script("printf '\\033]0;title\\007{\"x\":1}\\n'\n");
    env.run().expect(1);
    let piped = env.ralph(&["log", "1", "--raw"]).expect(0);
    assert_eq!(piped.stdout, "\u{1b}]0;title\u{7}{\"x\":1}\n");
    let shown = on_terminal(env.command(&["log", "1", "--raw"]));
    assert!(shown.contains("title") && shown.contains("{\"x\":1}"), "{shown:?}");
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
}

/// The agent is not given the variable, and finds the same value in a file.
#[test]
fn a_secret_of_the_users_environment_that_was_not_passed_is_starred_as_well() {
    let mut env = TestEnvironment::new();
    env.config(
        "\n[[validator]]\nkind = \"command\"\nname = \"talks\"\nprogram = [\"sh\", \"-c\", \"cat secret; exit 1\"]\n\
         [limits]\nmax_iterations = 1\n",
    );
    env.var("MINE_TOKEN", SECRET);
    env.write("secret", SECRET);
    let script = "test -z \"$MINE_TOKEN\" || exit 9; echo \"<promise>COMPLETE: with $(cat secret)</promise>\"\n";
    env.agent.default_call().script(script);
    let ended = env.ralph(&["run", "-v"]).expect(1);
    kept(&env, &ended);
    let journal = fs::read_to_string(env.journal_path()).unwrap();
    assert!(journal.contains("with ***"), "{journal}");
}
