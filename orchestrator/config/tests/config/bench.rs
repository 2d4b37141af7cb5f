//! `[bench]`.

use crate::Project;

#[test]
fn mistakes() {
    let cases: &[(&str, &[&str])] = &[
        (
            "[bench]\ntrials = 0\nconcurrency = 0\nagent_concurrency = { a = 0 }",
            &[
                "ralph.toml:2:10: bench.trials: expected a whole number of 1 or more, found 0",
                "ralph.toml:3:15: bench.concurrency: expected a whole number of 1 or more, found 0",
                "ralph.toml:4:27: bench.agent_concurrency.a: expected a whole number of 1 or more, found 0",
            ],
        ),
        (
            "[bench]\nagents = ['a', 'a', '']",
            &[
                "ralph.toml:2:16: bench.agents.1: the agent \"a\" is named twice",
                "ralph.toml:2:21: bench.agents.2: expected the name of an agent, found \"\"",
            ],
        ),
        (
            "[bench]\nagent_time_factor = 0",
            &[
                "ralph.toml:2:21: bench.agent_time_factor: expected a factor greater than 0, such as 2.0; found 0",
            ],
        ),
        (
            "[bench]\nmax_cost_usd = 0",
            &["ralph.toml:2:16: bench.max_cost_usd: expected more than 0 dollars, found 0"],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(Project::trusting(text).errors(), *expected, "{text}");
    }
}
