use serde_json::json;

use crate::Place;

#[test]
fn no_folder_no_files_and_too_few_are_distinguished() {
    let place = Place::bare();
    let reasons = place.reasons(json!({}));
    assert_eq!(reasons.len(), 1);
    let start = "evidence directory `tasks/a/validation-evidence` not found: create /";
    assert!(reasons[0].starts_with(start), "{reasons:?}");
    assert!(reasons[0].contains("at least 3 files (png, txt or json)"), "{reasons:?}");

    let place = Place::new();
    place.write("notes.md", "no evidence");
    let reasons = place.reasons(json!({"extensions": ["txt"]}));
    assert_eq!(
        reasons,
        [
            "no evidence files in `tasks/a/validation-evidence`: put at least 3 files (txt) in it that \
          show that the work is done"
        ]
    );

    place.write("a.txt", "1").write("b.txt", "2");
    let reasons = place.reasons(json!({"extensions": ["txt"]}));
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].starts_with("only 2 of 3 evidence files in"), "{reasons:?}");
}

#[test]
fn a_file_in_the_folders_place_is_reported() {
    let place = Place::bare();
    std::fs::write(place.dir(), "not a folder").unwrap();
    assert!(place.reasons(json!({}))[0].contains("is not a folder"));
}

#[test]
fn only_the_folder_beside_the_prompt_counts() {
    let place = Place::bare();
    let elsewhere = place.root.path().join("validation-evidence");
    std::fs::create_dir(&elsewhere).unwrap();
    for n in 0..3 {
        std::fs::write(elsewhere.join(format!("{n}.txt")), n.to_string()).unwrap();
    }
    assert!(place.reasons(json!({}))[0].contains("not found"));
}
