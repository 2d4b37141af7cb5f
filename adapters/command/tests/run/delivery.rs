//! The prompt, the arguments and the environment, as the program gets them.

use serde_json::json;

use crate::support::{Place, Sink};

const ODD: &[u8] = b"line\r\n\xFF\xFE caf\xC3\xA9 \xF0\x9F {prompt} $HOME `x` 'y' \"z\"\n\n";

#[tokio::test]
async fn stdin_is_the_prompt_byte_for_byte() {
    let place = Place::new();
    for prompt in [&b""[..], b"\0", ODD, b"a\0b\0\n"] {
        place
            .run(json!({"program": ["sh", "-c", "cat > got"]}), prompt, &Sink::new())
            .await
            .unwrap();
        assert_eq!(place.read("got"), prompt);
    }
}

#[tokio::test]
async fn a_long_prompt_reaches_an_agent_that_talks_first() {
    let place = Place::new();
    let prompt: Vec<u8> =
        (0..2 * 1024 * 1024_u32).map(|n| n.to_le_bytes()[n as usize % 4]).collect();
    let script = "head -c 1000000 /dev/zero | tr '\\0' x; echo; head -c 300000 /dev/zero | tr '\\0' e >&2; cat > got";
    let sink = Sink::new();
    place.run(json!({"program": ["sh", "-c", script]}), &prompt, &sink).await.unwrap();
    assert!(place.read("got") == prompt);
    assert_eq!(sink.text().len(), 1_000_001);
}

#[tokio::test]
async fn an_agent_that_never_reads_its_prompt_is_none_the_worse() {
    let place = Place::new();
    let config = json!({"program": ["sh", "-c", "echo done"]});
    let report = place.run(config, &vec![b'x'; 2 * 1024 * 1024], &Sink::new()).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("done\n"));
}

#[tokio::test]
async fn an_argument_is_the_prompt_byte_for_byte() {
    let place = Place::new();
    let script = r#"printf %s "$2" > got; printf %s "$1" > first; cat > stdin"#;
    for program in
        [json!(["sh", "-c", script, "sh", "a"]), json!(["sh", "-c", script, "sh", "a", "{prompt}"])]
    {
        let config = json!({"program": program, "prompt": "arg"});
        place.run(config, ODD, &Sink::new()).await.unwrap();
        assert_eq!(place.read("got"), ODD);
        assert_eq!((place.read("first"), place.read("stdin")), (b"a".to_vec(), Vec::new()));
    }
}

#[tokio::test]
async fn the_longest_argument_really_passes() {
    let place = Place::new();
    let config = json!({"program": ["sh", "-c", "printf %s \"$1\" > got", "sh"], "prompt": "arg"});
    let prompt = vec![b'x'; 128 * 1024 - 1];
    place.run(config.clone(), &prompt, &Sink::new()).await.unwrap();
    assert!(place.read("got") == prompt);
    let error = place.run(config, &vec![b'x'; 128 * 1024], &Sink::new()).await.unwrap_err();
    assert_eq!(error.class.word(), "invalid_request");
}

#[tokio::test]
async fn a_file_is_the_prompt_byte_for_byte_and_private() {
    let place = Place::new();
    let script = r#"cat "$1" > got; stat -c %a "$1" > mode; cat > stdin"#;
    for prompt in [ODD, b"\0nul\0", b""] {
        let config =
            json!({"program": ["sh", "-c", script, "sh", "{prompt_file}"], "prompt": "file"});
        place.run(config, prompt, &Sink::new()).await.unwrap();
        assert_eq!(place.read("got"), prompt);
        assert_eq!((place.read("mode"), place.read("stdin")), (b"600\n".to_vec(), Vec::new()));
    }
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_no_more() {
    let place = Place::new();
    let sink = Sink::new();
    let config = json!({"program": ["env", "-0"]});
    place.run(config.clone(), b"", &sink).await.unwrap();
    let task = place.task(b"");
    let mut wanted = task.env.clone();
    wanted.insert("RALPH_RUN_ID".into(), task.run.clone());
    wanted.insert("RALPH_ITERATION".into(), "3".into());
    let said = sink.text();
    let mut got: Vec<&str> = said.split_terminator('\0').collect();
    got.sort_unstable();
    let wanted: Vec<String> = wanted.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(got, wanted);
    // What the orchestrator says itself stands.
    let mut task = task;
    task.env.insert("RALPH_ITERATION".into(), "7".into());
    let sink = Sink::new();
    place.agent(config).run(task, &sink).await.unwrap();
    assert!(sink.text().contains("RALPH_ITERATION=7\0"));
}

#[tokio::test]
async fn it_runs_in_the_workspace() {
    let place = Place::new();
    let report = place.shell("pwd", &Sink::new()).await.unwrap();
    assert_eq!(report.final_text, Some(format!("{}\n", place.workspace.display())));
}
