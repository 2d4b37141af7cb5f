//! `[hooks]` and `[context]`.

use crate::Project;

#[test]
fn mistakes() {
    let cases: &[(&str, &[&str])] = &[
        (
            "[hooks]\nbefore_run = [['x'], []]",
            &[
                "ralph.toml:2:22: hooks.before_run.1: expected a program and its arguments, such as [\"./tell.sh\"]",
            ],
        ),
        ("[hooks]\ntimeout = '0s'", &["ralph.toml:2:11: hooks.timeout: must be greater than 0s"]),
        (
            "[hooks]\nsandbox = 'always'",
            &[
                "ralph.toml:2:11: hooks.sandbox: there is no sandbox: set `mode = \"landlock\"` in [sandbox], or leave this key out",
            ],
        ),
        (
            "[hooks]\nbefore_iterations = [['x']]",
            &[
                "ralph.toml:2:1: hooks.before_iterations: unknown key; did you mean `before_iteration`?",
            ],
        ),
        (
            "[context]\ncommand = ['']\ntimeout = '0s'\nmax_bytes = '2 MiB'",
            &[
                "ralph.toml:2:11: context.command: expected a program and its arguments",
                "ralph.toml:3:11: context.timeout: must be greater than 0s",
                "ralph.toml:4:13: context.max_bytes: must be at most \"1 MiB\"",
            ],
        ),
    ];
    for (text, expected) in cases {
        let errors = Project::trusting(text).errors();
        assert_eq!(errors, *expected, "{text}");
    }
}
