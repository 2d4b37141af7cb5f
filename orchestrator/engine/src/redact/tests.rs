//! What is found, and what is not.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use super::stream::StreamRedactor;
use super::*;

const SECRET: &str = "sk-abcabd";

fn redactor() -> Redactor {
    static THREE: LazyLock<Redactor> =
        LazyLock::new(|| Redactor::from_values([SECRET, "five!", "of\n\"two lines\""].into_iter()));
    THREE.clone()
}

fn stream(pieces: &[&str]) -> String {
    let mut events = StreamRedactor::new(redactor());
    let mut all: Vec<Event> = pieces
        .iter()
        .flat_map(|text| events.push(Event::Text { text: (*text).to_owned() }))
        .collect();
    all.extend(events.finish());
    let text = |event: &Event| match event {
        Event::Text { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    all.iter().map(text).collect()
}

#[test]
fn passed_and_telling_names_are_secret_and_what_everybody_gets_is_not() {
    let env = Env { pass: vec!["MINE".into(), "MY_*".into(), "HOME".into()], ..Env::default() };
    let names = ["MINE", "MY_OWN", "HOME", "A_KEY", "a_token", "DB_PASSWORD", "OTHER"];
    let vars = names.map(|name| (name.to_owned(), format!("value-of-{name}")));
    let redactor = Redactor::new(&env, &BTreeMap::from(vars));
    for name in names {
        let value = format!("value-of-{name}");
        let kept = ["HOME", "OTHER"].contains(&name);
        assert_eq!(redactor.text(&value) == value, kept, "{name}");
    }
    assert!(!format!("{redactor:?}").contains("value"));
}

#[test]
fn short_values_and_other_text_stay() {
    for text in ["five!", "sk-abcab and", "sk-", "nothing"] {
        assert_eq!(redactor().text(text), text);
    }
    assert_eq!(redactor().text("a sk-abcabd, b"), "a ***, b");
}

#[test]
fn forms_inside_json_and_single_lines_are_found() {
    let line = json!({"a": "of\n\"two lines\""}).to_string();
    assert_eq!(redactor().text(&line), "{\"a\":\"***\"}");
    assert_eq!(redactor().text("said \"two lines\" there"), "said *** there");
}

#[test]
fn nothing_else_is_changed_in_what_is_nested() {
    let event = |text: &str| Event::ToolCall {
        id: "1".into(),
        name: "Bash".into(),
        input: json!({"command": [text, 7, null, {"deep": text}]}),
    };
    assert_eq!(StreamRedactor::new(redactor()).push(event("x sk-abcabd")), [event("x ***")]);
    let event =
        |text: &str| Event::ToolResult { id: "1".into(), is_error: false, text: text.to_owned() };
    assert_eq!(StreamRedactor::new(redactor()).push(event("x sk-abcabd")), [event("x ***")]);
}

#[test]
fn a_secret_in_two_pieces_is_found_whatever_comes_between() {
    let mut events = StreamRedactor::new(redactor());
    assert_eq!(events.push(Event::Text { text: "it is sk-ab".into() }).len(), 1);
    let between = Event::Stderr { text: "hm".into() };
    assert_eq!(events.push(between.clone()), [between]);
    let end = events.push(Event::Text { text: "cabd.".into() });
    assert_eq!(end, [Event::Text { text: "***.".into() }]);
    // What only began like one is told before the next thing that happens.
    assert!(events.push(Event::Text { text: "sk-".into() }).is_empty());
    let call = Event::Warning { message: "w".into() };
    assert_eq!(events.push(call.clone()), [Event::Text { text: "sk-".into() }, call]);
}

proptest! {
    #[test]
    fn wherever_text_is_cut_the_same_is_reported(
        text in "(sk-abcabd|sk-abc|é|sk-|x| ){0,12}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.retain(|cut| text.is_char_boundary(*cut));
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|pair| text.get(pair[0]..pair[1]).unwrap()).collect();
        let reported = stream(&pieces);
        let mut expected = text.replace(SECRET, MASK);
        if let Some(before) = expected.strip_suffix("sk-abc") {
            expected = format!("{before}{MASK}");
        }
        prop_assert_eq!(&reported, &expected);
        prop_assert!(!reported.contains(SECRET));
    }
}

/// A secret as they look like, with characters that are escaped in most places.
const LONG: &str = "Tk9/wQz+7Lr=\"Vb&2Xm?Ye~é4Hs\\c3Jd8Gf6Pa";

fn long() -> Redactor {
    static LONGS: LazyLock<Redactor> = LazyLock::new(|| Redactor::from_values([LONG].into_iter()));
    LONGS.clone()
}

fn percent(text: &str, upper: bool) -> String {
    let byte = |byte: &u8| match (byte.is_ascii_alphanumeric(), upper) {
        (true, _) => char::from(*byte).to_string(),
        (false, true) => format!("%{byte:02X}"),
        (false, false) => format!("%{byte:02x}"),
    };
    text.as_bytes().iter().map(byte).collect()
}

#[test]
fn encoded_forms_are_found() {
    let once = json!(LONG).to_string();
    let twice = json!(once).to_string();
    let ascii = r#"Tk9/wQz+7Lr=\"Vb\u00262Xm?Ye~\u00e94Hs\\c3Jd8Gf6Pa"#;
    let hex: String = LONG.bytes().map(|byte| format!("{byte:02x}")).collect();
    let escaped: String = LONG.bytes().map(|byte| format!("\\x{byte:02X}")).collect();
    for form in [
        LONG.to_owned(),
        once,
        twice,
        ascii.to_owned(),
        percent(LONG, true),
        percent(LONG, false),
        hex.to_uppercase(),
        hex,
        escaped,
    ] {
        let shown = long().text(&format!("<{form}>")).into_owned();
        let rest = shown.replace(['\\', '"'], "");
        assert_eq!(rest, "<***>", "{form}");
    }
}

#[test]
fn an_escape_right_before_a_secret_hides_it_not() {
    let redactor = Redactor::from_values(["name-of-secret", "41-of-secret"].into_iter());
    assert_eq!(redactor.text(r"a\name-of-secret"), r"a\***");
    assert_eq!(redactor.text("a%41-of-secret"), "a%***");
}

#[test]
fn what_stands_at_a_cut_is_found_and_what_is_like_it_elsewhere_is_not() {
    let redactor = Redactor::from_values(["k3y-of-thirty-six-characters-in-all!"].into_iter());
    for (text, expected) in [
        ("x k3y-of-thirty-six-ch", "x ***"),
        ("x k3y-of-thirty-six-ch…", "x ***…"),
        ("x k3y-of-thirty-six-ch\nnext", "x ***\nnext"),
        (r#"{"x":"k3y-of-thirty-six-ch\nnext"}"#, r#"{"x":"***\nnext"}"#),
        (r#"{"x":"k3y-of-thirty-six-ch"}"#, r#"{"x":"***"}"#),
        ("x k3y-of-th", "x ***"),
        ("six-characters-in-all! x", "*** x"),
        ("said: …six-characters-in-all! x", "said: …*** x"),
        ("said:\n    six-characters-in-all! x", "said:\n    *** x"),
        ("k3y-of-th is no secret", "k3y-of-th is no secret"),
        ("how many characters-in-all! are", "how many characters-in-all! are"),
        ("x k3y-o", "x k3y-o"),
    ] {
        assert_eq!(redactor.text(text), expected);
    }
}

#[test]
fn folders_and_what_urls_begin_with_are_named_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner-folder");
    std::fs::create_dir(&inner).unwrap();
    let (inner, outer) = (inner.display().to_string(), folder.path().display().to_string());
    let redactor = Redactor::from_values([inner.as_str(), "https://example.com/key"].into_iter());
    assert_eq!(redactor.text(&outer), outer);
    assert_eq!(redactor.text(&format!("in {inner}/x")), "in ***/x");
    for (text, expected) in [("see https://", "see https://"), ("https://example.com/key", MASK)] {
        assert_eq!(redactor.text(text), expected);
    }
}

#[test]
fn a_part_of_a_long_secret_is_found_wherever_it_stands() {
    let key: String =
        (0..400_u32).map(|n| char::from(b'!' + u8::try_from(n * n % 89).unwrap())).collect();
    let redactor = Redactor::from_values([key.as_str()].into_iter());
    for start in [1, 17, 100, 300] {
        let shown =
            redactor.text(&format!("aaa{}bbb", key.get(start..start + 90).unwrap())).into_owned();
        assert!(shown.len() < 3 * 16 && shown.contains(MASK), "{shown}");
    }
}

#[test]
fn names_in_a_tools_arguments_are_texts_too() {
    let event = |text: &str| Event::ToolCall {
        id: "1".into(),
        name: text.into(),
        input: json!({text: {text: 1}, "other": 2}),
    };
    assert_eq!(StreamRedactor::new(redactor()).push(event(SECRET)), [event(MASK)]);
}

fn stderr(events: Vec<Event>) -> Vec<String> {
    let text = |event| match event {
        Event::Stderr { text } => text,
        other => panic!("{other:?}"),
    };
    events.into_iter().map(text).collect()
}

#[test]
fn a_secret_on_several_lines_of_standard_error_is_found() {
    let mut events = StreamRedactor::new(long());
    let mut line = |text: &str| stderr(events.push(Event::Stderr { text: text.into() }));
    assert_eq!(line("first"), ["first"]);
    assert_eq!(line(""), [""]);
    let parts = LONG.char_indices().map(|(at, _)| at).collect::<Vec<_>>();
    let parts = parts.chunks(7).map(|chunk| chunk[0]).chain([LONG.len()]).collect::<Vec<_>>();
    for part in parts.windows(2).take(parts.len() - 2) {
        assert!(line(&format!("  {}", LONG.get(part[0]..part[1]).unwrap())).is_empty());
    }
    let last = LONG.get(parts[parts.len() - 2]..).unwrap();
    assert_eq!(line(&format!("  {last} and")), ["  *** and"]);
    // What only began like one stays back no longer than until the next line.
    assert!(line("Tk9/wQz").is_empty());
    assert_eq!(line("other"), ["Tk9/wQz", "other"]);
    assert!(line("Tk9/wQz+7Lr").is_empty());
    assert_eq!(stderr(events.finish()), ["***"]);
}

#[test]
fn what_is_kept_back_is_bounded() {
    let mut events = StreamRedactor::new(long());
    let mut reported = 0;
    for _ in 0..1000 {
        let text = format!("Tk9/{}", "\n".repeat(200));
        for event in events.push(Event::Text { text }) {
            let Event::Text { text } = event else { panic!() };
            reported += text.len();
        }
    }
    assert!(reported > 100_000, "{reported}");
}

proptest! {
    #[test]
    fn wherever_it_is_wrapped_and_escaped_it_is_found(
        breaks in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        end in prop::sample::select(vec!["\n", "\r\n  ", "\\n", "\\r\\n\t", " \n\n", "%0A", "\\\n"]),
        before in "[a-z ]{0,5}", after in "[a-z ]{0,5}",
    ) {
        let boundaries: Vec<usize> = LONG.char_indices().map(|(at, _)| at).skip(1).collect();
        let mut breaks: Vec<usize> = breaks.iter().map(|at| *at.get(&boundaries)).collect();
        breaks.sort_unstable();
        breaks.dedup();
        let mut text = LONG.to_owned();
        for at in breaks.into_iter().rev() {
            text.insert_str(at, end);
        }
        let text = format!("{before}-{text}-{after}");
        prop_assert_eq!(long().text(&text).into_owned(), format!("{before}-***-{after}"));
    }

    #[test]
    fn base64_is_found_whatever_stands_around(before in "[a-z]{0,7}", after in "[a-z]{0,7}") {
        let whole = data_encoding::BASE64.encode(format!("{before}{LONG}{after}").as_bytes());
        let shown = long().text(&whole).into_owned();
        let most = (before.len() + after.len()).div_ceil(3) * 4 + 8 + MASK.len();
        prop_assert!(shown.contains(MASK) && shown.len() <= most, "{}", shown);
    }

    #[test]
    fn no_text_does_harm_and_pieces_are_reported_as_the_whole(
        text in r"(Tk9/wQz\+7Lr=|k9/|Pa|é|\\|n|\n|%|2F|u00|é|\x22|sk| ){0,30}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let _ = long().text(&text);
        let mut events = StreamRedactor::new(long());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.retain(|cut| text.is_char_boundary(*cut));
        cuts.sort_unstable();
        let mut reported = String::new();
        for pair in cuts.windows(2) {
            let text = text.get(pair[0]..pair[1]).unwrap().to_owned();
            for event in events.push(Event::Text { text }) {
                if let Event::Text { text } = event { reported.push_str(&text) }
            }
        }
        for event in events.finish() {
            if let Event::Text { text } = event { reported.push_str(&text) }
        }
        let mut at_once = StreamRedactor::new(long());
        let mut whole = String::new();
        let first = at_once.push(Event::Text { text });
        for event in first.into_iter().chain(at_once.finish()) {
            if let Event::Text { text } = event { whole.push_str(&text) }
        }
        prop_assert_eq!(reported, whole);
    }
}
