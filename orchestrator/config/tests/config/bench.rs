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
        (
            "[bench.cluster]\nprogram = ''",
            &[
                "ralph.toml:1:1: bench.cluster: `kind` is missing, such as `kind = \"slurm\"`",
                "ralph.toml:2:11: bench.cluster.program: expected the path of this program, found an empty text",
            ],
        ),
        (
            "[bench.cluster]\nkind = 'kubernetes'",
            &[
                "ralph.toml:1:1: bench.cluster: `pod` is missing, such as `pod = { image = \"bench:1\", mount = \"/shared\", claim = \"bench\" }`",
            ],
        ),
        (
            "[bench.cluster]\nkind = 'kubernetes'\n[bench.cluster.pod]\nimage = 'i'\nmount = 'shared'\ncpus = 0",
            &[
                "ralph.toml:3:1: bench.cluster.pod: `claim` is missing",
                "ralph.toml:5:9: bench.cluster.pod.mount: expected the path from the root at which pods see the volume, such as \"/shared\"",
                "ralph.toml:6:8: bench.cluster.pod.cpus: expected a whole number of 1 or more, found 0",
            ],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(Project::trusting(text).errors(), *expected, "{text}");
    }
}
