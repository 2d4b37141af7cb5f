//! What a program's standard output means.

mod text;

use ralph_adapter_common::claude_stream::ClaudeParser;
use ralph_adapter_common::codex_stream::CodexParser;
use ralph_adapter_common::opencode::OpenCodeParser;
use ralph_adapter_common::{LineHandler, LineParser, ProcessRun};
use ralph_orchestrator_contract::{AgentError, Capabilities, EventSink, Report};
use ralph_orchestrator_supervisor::Process;

use crate::config::{Output, OutputKind};
use crate::stream::StreamParser;
use text::TextHandler;

/// Runs a process with this output to its end.
pub(crate) async fn run(
    output: &Output,
    process: Process,
    events: &dyn EventSink,
) -> Result<Report, AgentError> {
    let kind = match output {
        Output::BuiltIn(kind) => *kind,
        Output::Configured(rules) => {
            return run_lines(StreamParser::new(rules.clone()), process, events).await;
        }
    };
    match kind {
        OutputKind::Text => ProcessRun::new(process, events, TextHandler::default()).run().await,
        OutputKind::ClaudeJson => run_lines(ClaudeParser::new(), process, events).await,
        OutputKind::CodexJson => run_lines(CodexParser::new(), process, events).await,
        OutputKind::OpenCodeJson => run_lines(OpenCodeParser::default(), process, events).await,
    }
}

async fn run_lines(
    parser: impl LineParser,
    process: Process,
    events: &dyn EventSink,
) -> Result<Report, AgentError> {
    ProcessRun::new(process, events, LineHandler::new(parser)).run().await
}

/// Returns what an agent with this output reports.
pub(crate) fn capabilities(output: &Output) -> Capabilities {
    let kind = match output {
        Output::BuiltIn(kind) => *kind,
        Output::Configured(rules) => return rules.capabilities(),
    };
    let (cost, tokens) = match kind {
        OutputKind::Text => (false, false),
        OutputKind::CodexJson => (false, true),
        OutputKind::ClaudeJson | OutputKind::OpenCodeJson => (true, true),
    };
    // Claude Code's `json` output is its result alone.
    let tool_calls = matches!(kind, OutputKind::CodexJson | OutputKind::OpenCodeJson);
    let rate_windows = kind == OutputKind::ClaudeJson;
    Capabilities { cost, tokens, tool_calls, rate_windows, ..Capabilities::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ralph_adapter_common::{LineReader, MAX_LINE, ProcessEnd, ProcessHandler};
    use ralph_orchestrator_contract::{CancelReason, ErrorClass, Event, Tokens, Usage, Usd};

    const CODEX: &str = include_str!("../../../common/tests/transcripts/codex/happy.jsonl");
    const OPENCODE: &str = include_str!("../../tests/transcripts/opencode.jsonl");
    const CLAUDE: &str = include_str!("../../tests/transcripts/happy-bypass.jsonl");
    const FINAL: &str = "All done. <promise>COMPLETE: hello.txt written</promise>";

    fn well() -> ProcessEnd {
        ProcessEnd { exit: "exit 0".into(), success: true, ..ProcessEnd::default() }
    }

    fn failed(exit: &str) -> ProcessEnd {
        ProcessEnd { exit: exit.into(), ..ProcessEnd::default() }
    }

    fn read(
        kind: OutputKind,
        bytes: &[u8],
        end: ProcessEnd,
    ) -> (Vec<Event>, Result<Report, AgentError>) {
        fn read_by<H: ProcessHandler>(
            mut handler: H,
            bytes: &[u8],
            end: ProcessEnd,
        ) -> (Vec<Event>, Result<Report, AgentError>) {
            if H::READS_LINES {
                let mut lines = LineReader::default();
                for line in lines.push(bytes).into_iter().chain(lines.finish()) {
                    match line.into_whole() {
                        Ok(line) => handler.read_line(line),
                        Err(events) => handler.actions().emit_all(events),
                    }
                }
            } else {
                handler.read_bytes(bytes);
            }
            handler.end_of_output();
            let mut events = handler.actions().take_events();
            events.retain(|event| !matches!(event, Event::Raw { .. }));
            (events, handler.finish(end))
        }
        match kind {
            OutputKind::Text => read_by(TextHandler::default(), bytes, end),
            OutputKind::ClaudeJson => read_by(LineHandler::new(ClaudeParser::new()), bytes, end),
            OutputKind::CodexJson => read_by(LineHandler::new(CodexParser::new()), bytes, end),
            OutputKind::OpenCodeJson => {
                read_by(LineHandler::new(OpenCodeParser::default()), bytes, end)
            }
        }
    }

    fn class(kind: OutputKind, text: &str, end: ProcessEnd) -> &'static str {
        read(kind, text.as_bytes(), end).1.unwrap_err().class.word()
    }

    #[test]
    fn codex_is_read_as_recorded() {
        let (events, result) = read(OutputKind::CodexJson, CODEX.as_bytes(), well());
        let report = result.unwrap();
        let tokens = Tokens { input: 1700, output: 120, cache_read: 2500, cache_write: 0 };
        assert_eq!(report.final_text.as_deref(), Some(FINAL));
        assert_eq!(report.usage, Usage { tokens: Some(tokens), ..Usage::default() });
        assert_eq!(report.session.as_deref(), Some("01a1ffe3-bec6-7530-b31e-4e89a52ed12e"));
        let reported = events.iter().map(|event| match event {
            Event::Session { .. } => "session",
            Event::Warning { .. } => "warning",
            Event::Thinking { .. } => "thinking",
            Event::Text { .. } => "text",
            Event::ToolCall { .. } => "call",
            Event::ToolResult { is_error: false, text, .. } if text == "hello ralph\n" => "result",
            Event::Usage { .. } => "usage",
            other => panic!("{other:?}"),
        });
        let reported = reported.collect::<Vec<_>>().join(" ");
        assert_eq!(reported, "session warning thinking text call result text usage");
    }

    #[test]
    fn codex_endings_have_their_classes() {
        let limited = include_str!("../../../common/tests/transcripts/codex/429.jsonl");
        for ended in [failed("exit 1"), well()] {
            assert_eq!(class(OutputKind::CodexJson, limited, ended), "rate_limited");
        }
        assert_eq!(class(OutputKind::CodexJson, CODEX, failed("exit 1")), "crashed");
    }

    #[test]
    fn opencode_is_summed_over_its_steps() {
        let (events, result) = read(OutputKind::OpenCodeJson, OPENCODE.as_bytes(), well());
        let report = result.unwrap();
        let tokens = Tokens { input: 2032, output: 110, cache_read: 14_100, cache_write: 5000 };
        assert_eq!(report.final_text.as_deref(), Some(FINAL));
        assert_eq!(report.usage.tokens, Some(tokens));
        assert_eq!(report.usage.cost, Usd::from_dollars(0.030_726));
        assert_eq!(report.session.as_deref(), Some("ses_e00142d24ffe7104tlvfVomT8w"));
        assert_eq!(events.iter().filter(|e| matches!(e, Event::ToolResult { .. })).count(), 2);
    }

    #[test]
    fn opencode_endings_have_their_classes() {
        let opencode = |error: &str| {
            let text = format!(r#"{{"type":"error","sessionID":"s","error":{error}}}"#);
            class(OutputKind::OpenCodeJson, &text, failed("exit 1"))
        };
        assert_eq!(
            opencode(r#"{"name":"APIError","data":{"message":"x","statusCode":429}}"#),
            "rate_limited"
        );
        assert_eq!(
            opencode(r#"{"name":"APIError","data":{"message":"x","statusCode":529}}"#),
            "overloaded"
        );
        assert_eq!(
            opencode(r#"{"name":"ProviderAuthError","data":{"message":"x"}}"#),
            "unauthenticated"
        );
        assert_eq!(
            opencode(
                r#"{"name":"APIError","data":{"message":"prompt is too long","statusCode":400}}"#
            ),
            "context_exceeded"
        );
        assert_eq!(opencode(r#"{"name":"UnknownError"}"#), "crashed");
        assert_eq!(opencode("7"), "crashed");
        assert_eq!(class(OutputKind::OpenCodeJson, OPENCODE, failed("signal 9")), "crashed");
        assert_eq!(class(OutputKind::OpenCodeJson, "", well()), "crashed");
    }

    #[test]
    fn opencode_reasoning_is_output_once() {
        let step = |total: u64| {
            let tokens = format!(
                r#"{{"total":{total},"input":10,"output":5,"reasoning":3,"cache":{{"read":1,"write":2}}}}"#
            );
            let line = format!(
                r#"{{"type":"step_finish","sessionID":"s","part":{{"reason":"stop","tokens":{tokens},"cost":0}}}}"#
            );
            read(OutputKind::OpenCodeJson, line.as_bytes(), well())
                .1
                .unwrap()
                .usage
                .tokens
                .unwrap()
                .output
        };
        assert_eq!((step(18), step(21)), (5, 8));
    }

    #[test]
    fn claude_is_read_as_stream_as_document_and_as_list() {
        let document = include_str!("../../tests/transcripts/json.jsonl");
        let list = format!("[{}]", CLAUDE.trim().replace('\n', ","));
        for text in [CLAUDE, document, &list] {
            let report = read(OutputKind::ClaudeJson, text.as_bytes(), well()).1.unwrap();
            assert_eq!(report.final_text.as_deref(), Some(FINAL));
            assert_eq!(report.usage.cost, Usd::from_dollars(0.130_185));
        }
        let qwen = include_str!("../../tests/transcripts/qwen.jsonl");
        assert!(
            read(OutputKind::ClaudeJson, qwen.as_bytes(), well()).1.unwrap().final_text.is_some()
        );
        let refused = include_str!("../../tests/transcripts/e401.jsonl");
        assert_eq!(class(OutputKind::ClaudeJson, refused, failed("exit 1")), "unauthenticated");
    }

    #[test]
    fn no_claim_survives_a_bad_ending_but_the_figures_do() {
        for (kind, text) in [
            (OutputKind::ClaudeJson, CLAUDE),
            (OutputKind::CodexJson, CODEX),
            (OutputKind::OpenCodeJson, OPENCODE),
        ] {
            let ended = ProcessEnd { stderr: "it broke\n".into(), ..failed("exit 3") };
            let error = read(kind, text.as_bytes(), ended).1.unwrap_err();
            assert_eq!(error.class, ErrorClass::Crashed);
            assert_eq!(error.message, "the agent ended with exit 3; its standard error: it broke");
            assert_eq!(error.report.final_text, None);
            assert!(error.report.usage.tokens.is_some());
            let cancelled = ProcessEnd { cancelled: Some(CancelReason::Signal), ..well() };
            let error = read(kind, text.as_bytes(), cancelled).1.unwrap_err();
            assert_eq!((error.class, error.report.final_text), (ErrorClass::Cancelled, None));
        }
    }

    #[test]
    fn a_line_that_is_too_long_costs_itself_only() {
        let text = format!("{{\"x\":\"{}\"}}\n{CODEX}", "y".repeat(MAX_LINE));
        let (events, result) = read(OutputKind::CodexJson, text.as_bytes(), well());
        assert!(result.is_ok());
        assert!(matches!(&events[0], Event::Warning { message } if message.contains("too long")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_stream_cut_anywhere_never_ends_well(which in 0..3_usize, at in 0.0..1.0_f64) {
            let (kind, text) = [
                (OutputKind::ClaudeJson, CLAUDE),
                (OutputKind::CodexJson, CODEX),
                (OutputKind::OpenCodeJson, OPENCODE),
            ][which];
            // The last line's end may be missing: everything was said.
            let whole = text.trim_end().len();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let cut = (at * whole as f64) as usize;
            let result = read(kind, &text.as_bytes()[..cut], well()).1;
            prop_assert!(result.is_err(), "cut at {cut}: {result:?}");
            prop_assert_eq!(result.unwrap_err().report.final_text, None);
        }

        #[test]
        fn no_bytes_do_harm(which in 0..4_usize, noise in prop::collection::vec(any::<u8>(), 0..200), at in 0..3000_usize) {
            let (kind, text) = [
                (OutputKind::ClaudeJson, CLAUDE),
                (OutputKind::CodexJson, CODEX),
                (OutputKind::OpenCodeJson, OPENCODE),
                (OutputKind::Text, OPENCODE),
            ][which];
            let mut bytes = text.as_bytes().to_vec();
            let at = at.min(bytes.len());
            bytes.splice(at..(at + noise.len() / 2).min(text.len()), noise);
            let _ = read(kind, &bytes, well());
        }
    }
}
