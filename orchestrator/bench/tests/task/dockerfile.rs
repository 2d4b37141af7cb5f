//! Dockerfiles: what is followed, and what it comes to as files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;
use ralph_orchestrator_bench::task::{Dockerfile, User};

use super::scratch::{Scratch, list, namespace};

fn staged(scratch: &Scratch) -> Vec<String> {
    assert_eq!(scratch.obstacles(&namespace()), Vec::<String>::new());
    let staged = scratch.stage().unwrap();
    list(&staged.root)
}

#[test]
fn follows_workdir_copy_env_and_user() {
    let text = r#"
# syntax=docker/dockerfile:1
ARG IMAGE=debian:12
FROM --platform=linux/amd64 ${IMAGE} AS base
ARG version=1
ENV A=1 B="two words" C=$version
ENV D three words
WORKDIR /srv
WORKDIR app
USER 1000:1000
LABEL a=b
EXPOSE 80
CMD ["sh"]
ENTRYPOINT ["/bin/bash"]
HEALTHCHECK NONE
STOPSIGNAL TERM
MAINTAINER nobody
VOLUME /data
COPY --chown=1000:1000 --chmod=750 file /opt/tools/
FROM base
ENV A=2$A
COPY ["with space.txt", "sub/", "./"]
"#;
    let scratch = Scratch::dockerfile(text);
    scratch.write("task/environment/file", "x");
    scratch.write("task/environment/with space.txt", "x");
    scratch.write("task/environment/sub/deep/file", "x");
    assert_eq!(
        staged(&scratch),
        [
            "data/",
            "opt/",
            "opt/tools/",
            "opt/tools/file",
            "srv/",
            "srv/app/",
            "srv/app/deep/",
            "srv/app/deep/file",
            "srv/app/with space.txt"
        ]
    );
    let again = scratch
        .task()
        .stage(&scratch.path("again"), &[("B".to_owned(), "host".to_owned())].into())
        .unwrap();
    let env: Vec<(&str, &str)> = again.env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(env, [("A", "21"), ("B", "two words"), ("C", "1"), ("D", "three words")]);
    assert_eq!((again.workdir.as_str(), again.user.clone()), ("/srv/app", Some(User::Id(1000))));
    let paths: Vec<&str> = again.mounts.iter().map(|mount| mount.path.as_str()).collect();
    assert_eq!(paths, ["/data", "/opt", "/srv"]);
    let mode =
        fs::metadata(again.host_path("/opt/tools/file").unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    assert_eq!(again.host_path("deep/file").unwrap(), again.root.join("srv/app/deep/file"));
    assert_eq!(again.host_path("/etc/passwd"), None);
    assert_eq!(again.host_path("../../etc/passwd"), None);
}

#[test]
fn copies_by_the_rules_of_docker() {
    for (line, expected) in [
        ("COPY a.txt b", vec!["b"]),
        ("COPY a.txt b/", vec!["b/", "b/a.txt"]),
        ("COPY a.txt .", vec!["a.txt"]),
        ("COPY a.txt /app", vec!["a.txt"]),
        ("COPY /a.txt x/y", vec!["x/", "x/y"]),
        ("COPY dir x", vec!["x/", "x/c.txt", "x/in/", "x/in/d.txt"]),
        ("COPY dir/ .", vec!["c.txt", "in/", "in/d.txt"]),
        ("COPY a.txt b.txt dir ./", vec!["a.txt", "b.txt", "c.txt", "in/", "in/d.txt"]),
        ("COPY *.txt .", vec!["a.txt", "b.txt"]),
        ("COPY [ab].txt d?r/c* .", vec!["a.txt", "b.txt", "c.txt"]),
        ("COPY d*/i*/*.txt .", vec!["d.txt"]),
        ("COPY --exclude=in dir .", vec!["c.txt"]),
        ("ADD a.txt .", vec!["a.txt"]),
        ("COPY ./dir/./in x", vec!["x/", "x/d.txt"]),
        ("COPY --link a.txt .\nCOPY b.txt a.txt", vec!["a.txt"]),
        ("RUN mkdir -p x/y && mkdir -m 700 z", vec!["x/", "x/y/", "z/"]),
    ] {
        let scratch = Scratch::dockerfile(&format!("FROM x\nWORKDIR /app\n{line}\n"));
        for path in ["a.txt", "b.txt", "dir/c.txt", "dir/in/d.txt"] {
            scratch.write(&format!("task/environment/{path}"), path);
        }
        let expected: Vec<String> =
            expected.into_iter().map(|path| format!("app/{path}")).collect();
        let found = staged(&scratch);
        assert_eq!(found[1..], expected, "{line}");
    }
}

#[test]
fn leaves_out_what_dockerignore_names() {
    let scratch = Scratch::dockerfile("FROM x\nWORKDIR /app\nCOPY . .\n");
    for path in ["a.log", "b.txt", "dir/keep.log", "dir/c.log", "dir/sub/d.txt", "other/e.txt"] {
        scratch.write(&format!("task/environment/{path}"), path);
    }
    scratch.write(
        "task/environment/.dockerignore",
        "**/*.log\n!dir/keep.log\nother\nDockerfile\n.dockerignore\n",
    );
    assert_eq!(
        staged(&scratch),
        ["app/", "app/b.txt", "app/dir/", "app/dir/keep.log", "app/dir/sub/", "app/dir/sub/d.txt"]
    );
    scratch.write("task/environment/Dockerfile", "FROM x\nWORKDIR /app\nCOPY other .\n");
    let obstacles = scratch.obstacles(&namespace());
    assert!(obstacles[0].contains("Dockerfile:3: COPY: other is not in"), "{obstacles:?}");
    scratch.write("task/environment/.dockerignore", "[");
    assert!(scratch.obstacles(&namespace())[0].contains(".dockerignore:1: "));
}

#[test]
fn keeps_modes_and_sets_those_of_chmod() {
    let text = "FROM x\nWORKDIR /app\nCOPY . .\nRUN chmod +x a.sh && chmod -R 700 dir\n";
    let scratch = Scratch::dockerfile(text);
    for path in ["a.sh", "b.sh", "dir/c.txt"] {
        scratch.write(&format!("task/environment/{path}"), path);
    }
    let mode = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(scratch.path("task/environment/a.sh"), mode(0o644)).unwrap();
    fs::set_permissions(scratch.path("task/environment/b.sh"), mode(0o4555)).unwrap();
    let staged = scratch.stage().unwrap();
    let found = |path: &str| {
        let path = staged.host_path(path).unwrap();
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    };
    // The owner keeps the right to write, as the superuser of a container has it.
    assert_eq!(
        [found("a.sh"), found("b.sh"), found("dir"), found("dir/c.txt")],
        [0o755, 0o755, 0o700, 0o700]
    );
    let modified = fs::metadata(staged.host_path("a.sh").unwrap()).unwrap().modified().unwrap();
    assert!(
        modified
            >= fs::metadata(scratch.path("task/environment/a.sh")).unwrap().modified().unwrap()
    );
}

#[test]
fn replaces_variables_of_the_image_and_of_earlier_lines() {
    let image = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let (a, b) = (format!("/a/bin:{image}"), format!("/b/bin:/a/bin:{image}"));
    for (lines, name, expected) in [
        ("ENV PATH=\"/a/bin:${PATH}\"", "PATH", Some(a.as_str())),
        ("ENV PATH=/a/bin:$PATH\nENV PATH=/b/bin:$PATH", "PATH", Some(&b)),
        ("ENV A=/a/bin:$PATH\nENV PATH=$A", "PATH", Some(&a)),
        // What the image has is not what the task sets.
        ("ENV A=1", "PATH", None),
        ("ARG V=1\nARG V=2\nENV A=$V", "A", Some("2")),
        ("ARG V=1\nENV V=3\nARG V=2", "V", Some("3")),
        ("ENV A=1\nENV A=2 B=$A", "B", Some("1")),
        ("ENV A=${V:-${PATH:+x}}", "A", Some("x")),
    ] {
        let scratch = Scratch::dockerfile(&format!("FROM x\nWORKDIR /app\n{lines}\n"));
        let env = scratch.stage().unwrap().env;
        assert_eq!(env.get(name).map(String::as_str), expected, "{lines}");
    }
}

#[test]
fn replaces_variables_that_known_images_set() {
    let go =
        "/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    for (image, value, expected) in [
        ("golang:1.22", "$GOPATH/src", "/go/src"),
        ("golang", "$PATH", go),
        ("docker.io/library/python:3.12-slim", "${LANG}", "C.UTF-8"),
        ("ruby@sha256:0", "$GEM_HOME", "/usr/local/bundle"),
        ("rust:1 AS build\nFROM build", "$CARGO_HOME", "/usr/local/cargo"),
        ("golang:1 AS python\nFROM debian", "x$GOPATH", "x"),
    ] {
        let scratch = Scratch::dockerfile(&format!("FROM {image}\nWORKDIR /app\nENV A={value}\n"));
        let env = scratch.stage().unwrap().env;
        // They are what the image's programs want, and those of this machine may not.
        assert_eq!(env, [("A".to_owned(), expected.to_owned())].into(), "{image}");
    }
}

#[test]
fn tells_the_commands_of_run_lines() {
    let text = "FROM x\nARG V=8\nENV E=1\nWORKDIR /app\nSHELL [\"/bin/bash\", \"-c\"]\n\
                RUN --mount=type=cache,target=/root/.cache pip install pytest==$V \\\n  && apt-get install -y bats\n\
                USER me\nRUN [\"make\", \"all\"]\n";
    let scratch = Scratch::dockerfile(text);
    let mut capabilities = namespace();
    capabilities.provided = vec!["pip:pytest".parse().unwrap(), "apt:bats".parse().unwrap()];
    let obstacles = scratch.obstacles(&capabilities);
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    assert!(
        obstacles[0].starts_with("environment/Dockerfile:9: RUN: `make` is not interpreted, so"),
        "{obstacles:?}"
    );
    let setup = scratch.stage().unwrap().setup;
    assert_eq!(setup[0].program[..2], ["/bin/bash", "-c"]);
    assert!(setup[0].program[2].starts_with("pip install pytest==$V"));
    assert_eq!(
        (setup[0].line, setup[0].workdir.as_str(), setup[0].env["V"].as_str()),
        (6, "/app", "8")
    );
    let packages: Vec<String> =
        setup[0].packages().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(packages, ["pip:pytest==8", "apt:bats"]);
    assert!(setup[0].is_covered(&capabilities.provided) && !setup[0].is_covered(&[]));
    assert_eq!(setup[1].program, ["make", "all"]);
    assert_eq!(setup[1].user, Some(User::Name("me".to_owned())));
    assert!(setup[1].packages().is_err());
}

#[test]
fn refuses_what_it_cannot_follow() {
    for (line, expected) in [
        ("COPY --from=build /a /b", "`--from=build` copies from another image"),
        ("COPY --parents a b", "the option `--parents` is not followed"),
        ("COPY ../secret .", "leads out of the folder of the Dockerfile"),
        ("COPY a/../../secret .", "leads out of the folder of the Dockerfile"),
        ("COPY none .", "none is not in"),
        ("COPY /etc/passwd .", "/etc/passwd".trim_start_matches('/')),
        ("COPY only", "needs a source and a target"),
        ("COPY Dockerfile /usr/local/bin/x", "is in /usr, which is the machine's own"),
        ("WORKDIR /tests", "is in /tests, where the trial itself puts its files"),
        ("COPY Dockerfile /app/../etc/x", "/etc/x is in /etc"),
        ("COPY Dockerfile /", "is the root folder"),
        ("COPY --chmod=u+x Dockerfile x", "the mode `u+x` is not interpreted"),
        ("COPY <<EOF /a\nx\nEOF", "a here-document is not followed"),
        ("COPY \"a b", "a quote is not closed"),
        ("ADD https://example.test/x .", "ADD would fetch or unpack"),
        ("ADD a.tar.gz .", "ADD would fetch or unpack"),
        ("RUN <<EOF\nmake\nEOF", "a here-document is not followed"),
        (
            "RUN --mount=type=secret,id=x make",
            "the option `--mount=type=secret,id=x` is not followed",
        ),
        ("RUN", "there is no command"),
        ("RUN a | b", "`|` is more than a simple command"),
        ("RUN pip install x", "`python3 -m pip install 'x'`"),
        ("RUN mkdir /etc/x", "/etc/x is in /etc"),
        ("ENTRYPOINT [\"/server\"]", "it starts something with the container"),
        ("ENV", "expected NAME=value"),
        ("ENV A=1 b", "expected NAME=value, found `b`"),
        ("WORKDIR ${A", "`${` is not closed"),
        ("WORKDIR /proc/x", "/proc/x is in /proc"),
        ("USER", "it names no user"),
        ("SHELL bash", "expected a list"),
        ("FROM a b", "expected an image"),
        ("INSTALL x", "INSTALL: this instruction is not known"),
        ("RUN <<EOF", "a here-document does not end"),
    ] {
        let scratch = Scratch::dockerfile(&format!("FROM x\nWORKDIR /app\n{line}\n"));
        let obstacles = scratch.obstacles(&namespace());
        assert!(obstacles.iter().any(|found| found.contains(expected)), "{line}\n{obstacles:?}");
    }
    for (text, expected) in [
        ("", "there is no FROM line"),
        ("WORKDIR /app", "it stands before the first FROM"),
        ("FROM x", "its work directory is not known: add a WORKDIR line"),
    ] {
        let obstacles = Scratch::dockerfile(text).obstacles(&namespace());
        assert!(obstacles.iter().any(|found| found.contains(expected)), "{text}\n{obstacles:?}");
    }
}

#[test]
fn staging_refuses_what_has_obstacles_too() {
    for text in [
        "FROM x\nWORKDIR /app\nCOPY --from=y a b\n",
        "FROM x\n",
        "FROM x\nWORKDIR /app\nCOPY none .\n",
        "FROM x\nWORKDIR /usr/x\n",
        "FROM x\nWORKDIR /app\nRUN chmod +x none\n",
    ] {
        assert!(Scratch::dockerfile(text).stage().is_err(), "{text}");
    }
    let scratch = Scratch::harbor("");
    scratch.stage().unwrap();
    let again = scratch.stage().unwrap_err().to_string();
    assert!(again.contains("staged/root: "), "{again}");
}

proptest! {
    #[test]
    fn takes_any_text(text in "(?s)(FROM|COPY|ENV|RUN|ARG|WORKDIR|USER|[-a-z/ .$\"'\\\\{}\\[\\]<>=&|;\n]){0,40}") {
        let dockerfile = Dockerfile::from_text(std::path::Path::new("/x/Dockerfile"), &text);
        for command in dockerfile.setup_commands() {
            prop_assert!(command.line >= 1 && !command.program.is_empty());
        }
    }
}
