use serde_json::json;

use crate::{Place, gradient};

#[test]
fn each_wanted_text_has_to_be_somewhere() {
    let place = Place::new();
    place.write_three();
    assert!(place.verdict(json!({"must_match": ["^42 passed$", "\"ok\":\\d"]})).is_accepted());
    let reasons = place.reasons(json!({"must_match": ["passed", "browser: \\w+", "ok.*ok"]}));
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons[0].contains("matches `browser: \\w+` (must_match)"), "{reasons:?}");
    assert!(reasons[1].contains("`ok.*ok`"), "{reasons:?}");
}

#[test]
fn an_unwanted_text_is_shown_with_file_and_line() {
    let place = Place::new();
    place.write_three().write("sub/log.txt", "ok\r\nok\r\n3 failed\r\n4 failed");
    let reasons = place.reasons(json!({"must_not_match": ["^[1-9]\\d* failed$", "panicked"]}));
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(
        reasons[0]
            .starts_with("`sub/log.txt` line 3 matches `^[1-9]\\d* failed$` (must_not_match)"),
        "{reasons:?}"
    );
}

#[test]
fn json_is_searched_images_are_not() {
    let place = Place::new();
    place.write("a.json", "{\"code\": 500}").write("b.png", gradient(9, 9)).write("c.txt", "x");
    assert!(place.reasons(json!({"must_not_match": ["500"]}))[0].starts_with("`a.json` line 1"));
    assert!(place.verdict(json!({"must_not_match": ["PNG"]})).is_accepted());
    assert!(!place.verdict(json!({"must_match": ["IHDR"]})).is_accepted());
}

#[test]
fn everything_wrong_is_reported_at_once() {
    let place = Place::new();
    place.write("a.txt", "2 failed").write("b.txt", "").write("c.txt", "old").seen("old", 0);
    let reasons = place.reasons(json!({"must_match": ["passed"], "must_not_match": ["failed"]}));
    assert_eq!(reasons.len(), 5, "{reasons:?}");
    for (why, part) in reasons.iter().zip(["only 1 of 3", "must_match", "line 1", "empty", "stale"])
    {
        assert!(why.contains(part), "{reasons:?}");
    }
}
