//! `[[notify]]`.

use crate::Project;

#[test]
fn mistakes() {
    let cases: &[(&str, &[&str])] = &[
        ("[[notify]]\nname = 'x'", &["ralph.toml:1:1: notify.0: `kind` is missing"]),
        (
            "[[notify]]\nkind = 'mail'",
            &[
                "ralph.toml:2:8: notify.0.kind: expected \"command\" or \"webhook\" or \"ntfy\" or \"slack\" or \"discord\" or \"desktop\" or \"autocoder\", found \"mail\"",
            ],
        ),
        ("[[notify]]\nkind = 'ntfy'", &["ralph.toml:1:1: notify.0: `url` is missing"]),
        (
            "[[notify]]\nkind = 'ntfy'\nurl = 'ntfy.sh/x'",
            &[
                "ralph.toml:3:7: notify.0.url: expected an address that begins with https:// or http:// and has no spaces",
            ],
        ),
        (
            "[[notify]]\nkind = 'desktop'\nsecret_env = 'X'\ncommand = ['x']",
            &[
                "ralph.toml:3:14: notify.0.secret_env: has no meaning for a receiver of the kind \"desktop\"",
                "ralph.toml:4:11: notify.0.command: has no meaning for a receiver of the kind \"desktop\"",
            ],
        ),
        (
            "[[notify]]\nkind = 'autocoder'\nurl = 'http://x'\n[[notify]]\nkind = 'autocoder'\nname = 'b'\nurl = 'http://y'",
            &[
                "ralph.toml:5:8: notify.1.kind: another receiver has this kind: what was posted is written down once",
            ],
        ),
        (
            "[telemetry]\notlp = 'collector:4318'",
            &[
                "ralph.toml:2:8: telemetry.otlp: expected an address that begins with https:// or http:// and has no spaces",
            ],
        ),
        ("[[notify]]\nkind = 'command'", &["ralph.toml:1:1: notify.0: `command` is missing"]),
        (
            "[[notify]]\nkind = 'desktop'\ntimeout = '0s'\non = []",
            &[
                "ralph.toml:3:11: notify.0.timeout: must be greater than 0s",
                "ralph.toml:4:6: notify.0.on: names nothing that it is sent",
            ],
        ),
    ];
    for (text, expected) in cases {
        let errors = Project::trusting(text).errors();
        assert_eq!(errors, *expected, "{text}");
    }
}

#[test]
fn two_receivers_need_two_names() {
    let text = "[[notify]]\nkind = 'desktop'\n[[notify]]\nkind = 'desktop'";
    let errors = Project::trusting(text).errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("another receiver is called \"desktop\""), "{errors:?}");
}
