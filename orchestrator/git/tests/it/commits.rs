//! Real commits: what they take, what they leave, and what they run.

use std::fs;
use std::time::Duration;

use ralph_orchestrator_git::{
    CommitOutcome, CommitPolicy, GitError, RepoPath, Repository, Result, SkipReason,
};

use crate::fixture::{Fixture, Step, bytes};

fn commit(repository: &Repository, message: &str) -> Result<CommitOutcome> {
    repository.commit(1, message, &CommitPolicy::default())
}

fn committed_files(fixture: &Fixture) -> Vec<String> {
    let names = fixture.git(&["show", "--format=", "--name-only", "--no-renames", "HEAD"]);
    names.lines().map(str::to_owned).collect()
}

#[test]
fn one_file_is_committed_only_if_it_is_tracked_not_staged_and_accepted() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    let commit = |path: &str, accepts: bool| {
        let path = RepoPath::from_bytes(path);
        repository.commit_file(&path, "m", &CommitPolicy::default(), &|_, _| accepts).unwrap()
    };
    let reasons =
        |outcome: &CommitOutcome| outcome.skipped.iter().map(|s| s.reason).collect::<Vec<_>>();
    // Nothing to do.
    assert_eq!(reasons(&commit("a.txt", true)), []);
    fixture.write("new.txt", "untracked");
    assert_eq!(reasons(&commit("new.txt", true)), []);
    fixture.write("a.txt", "two");
    assert_eq!(reasons(&commit("a.txt", false)), [SkipReason::DirtyBefore]);
    fixture.git(&["add", "a.txt"]);
    assert_eq!(reasons(&commit("a.txt", true)), [SkipReason::DirtyBefore]);
    fixture.git(&["reset", "-q"]);
    fs::remove_file(fixture.path("a.txt")).unwrap();
    std::os::unix::fs::symlink("src/lib.rs", fixture.path("a.txt")).unwrap();
    let linked = commit("a.txt", true);
    assert_eq!((linked.commit.is_some(), linked.skipped.len()), (false, 1));
    assert_eq!(fixture.git(&["rev-list", "--count", "HEAD"]), "1");
    fs::remove_file(fixture.path("a.txt")).unwrap();
    fixture.write("a.txt", "two");
    assert!(commit("a.txt", true).is_new);
    assert_eq!(committed_files(&fixture), ["a.txt"]);
    assert_eq!(fixture.git(&["status", "--porcelain"]), "?? new.txt");
}

#[test]
fn commits_what_the_iteration_changed_and_nothing_of_the_users() {
    let fixture = Fixture::committed();
    for name in ["staged", "both", "edited", "removed"] {
        fixture.write(name, "1\n");
    }
    fixture.git(&["add", "."]);
    fixture.git(&["commit", "-qm", "second"]);
    fixture.write("staged", "staged by the user\n");
    fixture.write("both", "staged\n");
    fixture.write("staged-new", "new\n");
    fixture.git(&["add", "staged", "both", "staged-new"]);
    fixture.write("both", "edited after staging\n");
    fixture.write("edited", "not staged\n");
    fixture.write("untracked", "the user's\n");
    let staged = fixture.git(&["diff", "--cached"]);
    let repository = fixture.begin(1);
    // The iteration:
    fixture.write("src/lib.rs", "fn main() { work() }\n");
    fixture.write("src/new.rs", "new\n");
    fixture.write("staged-by-agent", "x\n");
    fixture.git(&["add", "staged-by-agent"]);
    fixture.write("edited", "not staged, and changed by the agent\n");
    fixture.write("ignored/x", "x");
    fixture.write(".env.local", "SECRET=1");
    fs::remove_file(fixture.path("removed")).unwrap();
    let message = "wip: feature - session s001 handoff\n\nAuto-committed at context threshold.\n\
                   Context usage: 71.3%\n";
    let outcome = commit(&repository, message).unwrap();
    assert!(outcome.is_new);
    assert_eq!(outcome.commit.unwrap().as_str(), fixture.git(&["rev-parse", "main"]));
    assert_eq!(
        committed_files(&fixture),
        ["removed", "src/lib.rs", "src/new.rs", "staged-by-agent"]
    );
    assert_eq!(fixture.git(&["log", "-1", "--format=%B"]), message.trim_end());
    assert_eq!(
        fixture.git(&["log", "-1", "--format=%an <%ae> %cn"]),
        "Ada User <ada@example.org> Ada User"
    );
    assert_eq!(fixture.git(&["diff", "--cached"]), staged, "what was staged stays staged");
    assert_eq!(
        fixture.git(&["status", "--porcelain"]),
        "MM both\n M edited\nM  staged\nA  staged-new\n?? .env.local\n?? untracked"
    );
    let skipped: Vec<_> =
        outcome.skipped.iter().map(|file| (file.path.to_string(), file.reason)).collect();
    assert!(skipped.contains(&(".env.local".to_owned(), SkipReason::Secret)), "{skipped:?}");
    assert!(skipped.contains(&("edited".to_owned(), SkipReason::DirtyBefore)), "{skipped:?}");
    let again = commit(&repository, message).unwrap();
    assert_eq!((again.is_new, again.commit.is_some()), (false, true));
}

#[test]
fn makes_no_empty_commit() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    let before = fixture.user_state();
    let outcome = commit(&repository, "m").unwrap();
    assert_eq!((outcome.commit, outcome.is_new), (None, false));
    assert_eq!(fixture.user_state(), before);
}

#[test]
fn commits_twice_in_one_iteration_if_there_is_more() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    fixture.write("a.txt", "two\n");
    commit(&repository, "same message").unwrap();
    fixture.write("a.txt", "three\n");
    assert!(commit(&repository, "same message").unwrap().is_new);
    assert_eq!(fixture.git(&["rev-list", "--count", "HEAD"]), "3");
}

#[test]
fn makes_the_first_commit_of_an_unborn_branch() {
    let fixture = Fixture::new();
    let repository = fixture.begin(1);
    fixture.write("a.txt", "one\n");
    assert!(commit(&repository, "first").unwrap().is_new);
    assert_eq!(committed_files(&fixture), ["a.txt"]);
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
    assert!(!commit(&repository, "first").unwrap().is_new);
}

#[test]
fn reports_a_failing_hook_and_leaves_the_index_byte_by_byte() {
    let fixture = Fixture::committed();
    fixture.write("staged", "by the user");
    fixture.git(&["add", "staged"]);
    fixture.write_script(
        &fixture.path(".git/hooks/pre-commit"),
        "test -n \"$GIT_INDEX_FILE\" && git diff --cached --name-only >&2; echo 'no: \x1b[31mlint' >&2; exit 1",
    );
    let repository = fixture.begin(1);
    fixture.write("new.txt", "new");
    let before = fixture.user_state();
    let error = commit(&repository, "m").unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, GitError::CommitFailed { .. }), "{message}");
    assert!(message.contains("new.txt") && !message.contains("staged"), "{message}");
    assert!(message.contains("no: \\u{1b}[31mlint"), "{message}");
    assert_eq!(fixture.user_state(), before);
}

#[test]
fn runs_all_hooks_of_a_commit_and_takes_what_they_format() {
    let fixture = Fixture::committed();
    let hooks = fixture.path(".git/hooks");
    fixture.write_script(
        &hooks.join("pre-commit"),
        "echo formatted > a.txt; git add a.txt; env > environment.log",
    );
    fixture.write_script(&hooks.join("commit-msg"), "echo 'Checked-by: hook' >> \"$1\"");
    fixture.write_script(&hooks.join("post-commit"), "echo ran > ignored-post.log; exit 3");
    let repository = fixture.begin(1);
    fixture.write("a.txt", "unformatted");
    assert!(commit(&repository, "subject\n").unwrap().is_new);
    assert_eq!(fixture.git(&["show", "HEAD:a.txt"]), "formatted");
    assert!(fixture.git(&["log", "-1", "--format=%B"]).contains("Checked-by: hook"));
    assert!(fixture.path("ignored-post.log").exists());
    let environment = String::from_utf8(fixture.read("environment.log")).unwrap();
    for name in ["GIT_LITERAL_PATHSPECS", "GIT_ALLOW_PROTOCOL", "GIT_OPTIONAL_LOCKS", "LC_ALL"] {
        assert!(!environment.contains(name), "{environment}");
    }
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
}

#[test]
fn signs_as_the_user_configured_it() {
    let fixture = Fixture::committed();
    let program = fixture.folder.path().join("gpg");
    fixture.write_script(&program, "exit 7");
    fixture.git(&["config", "commit.gpgSign", "true"]);
    fixture.git(&["config", "gpg.program", program.to_str().unwrap()]);
    let repository = fixture.begin(1);
    fixture.write("a.txt", "two");
    let before = fixture.user_state();
    let error = commit(&repository, "m").unwrap_err();
    assert!(error.to_string().contains("gpg"), "{error}");
    assert_eq!(fixture.user_state(), before);
}

#[test]
fn ends_a_program_that_signs_when_its_time_is_up_and_commits_later() {
    let signed = "cat >/dev/null; echo '[GNUPG:] SIG_CREATED ' >&2; printf -- '-----BEGIN PGP SIGNATURE-----\\nx\\n'";
    let ssh = "while [ $# -gt 1 ]; do shift; done; echo signature > \"$1.sig\"";
    let cases = [
        ("openpgp", "gpg.program", signed),
        ("openpgp", "gpg.openpgp.program", signed),
        ("ssh", "gpg.ssh.program", ssh),
    ];
    for (format, key, signs) in cases {
        let fixture = Fixture::committed();
        let program = fixture.folder.path().join("it's a program");
        fixture.write_script(&program, "exec tail -f /dev/null");
        fixture.git(&["config", "commit.gpgSign", "true"]);
        fixture.git(&["config", "gpg.format", format]);
        fixture.git(&["config", "user.signingKey", "a key"]);
        fixture.git(&["config", key, program.to_str().unwrap()]);
        let repository = fixture.open().with_signing_timeout(Duration::from_millis(100));
        repository.trust_configuration().unwrap();
        repository.begin_iteration(1).unwrap();
        fixture.write("a.txt", "two");
        let before = fixture.user_state();
        let error = commit(&repository, "m").unwrap_err().to_string();
        assert!(error.contains("[git] timeout"), "{key}: {error}");
        assert_eq!(fixture.user_state(), before, "{key}");
        fixture.write_script(&program, signs);
        let repository = repository.with_signing_timeout(Duration::from_secs(60));
        repository.begin_iteration(2).unwrap();
        repository.commit(2, "m", &CommitPolicy::default()).unwrap();
        assert!(fixture.git(&["cat-file", "commit", "HEAD"]).contains("gpgsig"), "{key}");
    }
}

#[test]
fn refuses_where_a_commit_would_harm() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    fixture.write("a.txt", "two");
    let policy = CommitPolicy { protected_branches: vec!["main".to_owned()] };
    let error = repository.commit(1, "m", &policy).unwrap_err();
    assert!(matches!(error, GitError::ProtectedBranch(_)), "{error}");

    fixture.write(".git/index.lock", "");
    let before = fixture.user_state();
    let error = commit(&repository, "m").unwrap_err();
    assert!(matches!(error, GitError::IndexLocked(_)), "{error}");
    assert!(repository.state().unwrap().is_index_locked);
    repository.checkpoint(&crate::fixture::run(), 1, "m").unwrap();
    assert_eq!(fixture.user_state(), before);
    fs::remove_file(fixture.path(".git/index.lock")).unwrap();

    fixture.git(&["checkout", "-q", "--detach"]);
    let error = commit(&repository, "m").unwrap_err();
    assert!(matches!(error, GitError::DetachedHead), "{error}");

    fixture.git(&["checkout", "-q", "-b", "another"]);
    let error = commit(&repository, "m").unwrap_err();
    assert!(matches!(error, GitError::BranchChanged { .. }), "{error}");
    fixture.git(&["checkout", "-q", "main"]);
    let error = repository.commit(2, "m", &CommitPolicy::default()).unwrap_err();
    assert!(matches!(error, GitError::IterationNotRecorded(2)), "{error}");
}

#[test]
fn commits_a_file_that_becomes_a_folder_a_case_only_rename_and_an_executable_bit() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    fs::remove_file(fixture.path("a.txt")).unwrap();
    fixture.write("a.txt/inner", "x");
    fs::rename(fixture.path("src"), fixture.path("SRC")).unwrap();
    fs::set_permissions(fixture.path("SRC/lib.rs"), fs::Permissions::from_mode(0o755)).unwrap();
    commit(&repository, "m").unwrap();
    assert_eq!(
        fixture.git(&["ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD"]),
        "100644 .gitignore\n100755 SRC/lib.rs\n100644 a.txt/inner"
    );
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
}

#[test]
fn commits_only_the_workspace_of_a_larger_repository() {
    let mut fixture = Fixture::committed();
    fixture.write("packages/one/x", "1");
    fixture.git(&["add", "."]);
    fixture.git(&["commit", "-qm", "second"]);
    let top = fixture.workspace.clone();
    fixture.workspace = fixture.path("packages/one");
    let repository = fixture.begin(1);
    fixture.write("x", "2");
    fixture.write("y", "2");
    fs::write(top.join("a.txt"), "changed outside the workspace").unwrap();
    commit(&repository, "m").unwrap();
    assert_eq!(committed_files(&fixture), ["packages/one/x", "packages/one/y"]);
    assert_eq!(fixture.git(&["status", "--porcelain"]), " M a.txt");
}

#[test]
fn normalises_line_ends_as_the_users_git_does() {
    let fixture = Fixture::committed();
    fixture.write(".gitattributes", "*.txt text\n");
    fixture.git(&["add", "."]);
    fixture.git(&["commit", "-qm", "attributes"]);
    let repository = fixture.begin(1);
    fixture.write("a.txt", "one\r\ntwo\r\n");
    commit(&repository, "m").unwrap();
    assert_eq!(fixture.try_git(&["cat-file", "blob", "HEAD:a.txt"]).stdout, b"one\ntwo\n");
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
}

#[test]
fn survives_a_real_kill_of_git_before_and_after_the_commit() {
    let fixture = Fixture::committed();
    fixture.write("staged", "by the user");
    fixture.git(&["add", "staged"]);
    let hook = fixture.path(".git/hooks/pre-commit");
    fixture.write_script(&hook, "kill -9 $PPID");
    let repository = fixture.begin(1);
    fixture.write("a.txt", "two");
    let before = fixture.user_state();
    for _ in 0..2 {
        let error = commit(&repository, "m").unwrap_err();
        assert!(error.to_string().starts_with("git commit: exited with signal 9"), "{error}");
        assert_eq!(fixture.user_state(), before);
    }
    fs::rename(&hook, fixture.path(".git/hooks/post-commit")).unwrap();
    repository.trust_configuration().unwrap();
    assert!(commit(&repository, "m").unwrap().is_new);
    assert_eq!(fixture.git(&["status", "--porcelain"]), "A  staged");
    fixture.git(&["fsck", "--strict"]);
}

#[test]
fn commits_names_of_any_bytes_and_links_without_following_them() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    for name in [&b"new\nline \xff"[..], b":(top)magic", b"*", b"-f", b"\"quoted\""] {
        fixture.write(bytes(name), "x");
    }
    std::os::unix::fs::symlink("/etc", fixture.path("link")).unwrap();
    assert!(commit(&repository, "m").unwrap().is_new);
    assert_eq!(committed_files(&fixture).len(), 6);
    assert!(fixture.git(&["ls-tree", "HEAD", "link"]).starts_with("120000"));
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
}

#[test]
fn commits_nothing_behind_a_folder_that_became_a_link() {
    let fixture = Fixture::committed();
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("lib.rs"), "another project").unwrap();
    let repository = fixture.begin(1);
    fs::remove_dir_all(fixture.path("src")).unwrap();
    std::os::unix::fs::symlink(&outside, fixture.path("src")).unwrap();
    assert!(commit(&repository, "m").unwrap().is_new);
    assert!(fixture.git(&["ls-tree", "HEAD", "src"]).starts_with("120000"));
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_a_failed_commit_left_goes_with_the_next() {
    let cases: [(&str, Step, Step); 3] = [
        (
            "hook",
            |fixture| {
                fixture.write_script(&fixture.path(".git/hooks/pre-commit"), "test ! -e refuse");
            },
            |fixture| fs::remove_file(fixture.path("refuse")).unwrap(),
        ),
        (
            "index.lock",
            |fixture| fixture.write(".git/index.lock", ""),
            |fixture| fs::remove_file(fixture.path(".git/index.lock")).unwrap(),
        ),
        (
            "detached",
            |fixture| drop(fixture.git(&["checkout", "-q", "--detach"])),
            |fixture| drop(fixture.git(&["checkout", "-q", "main"])),
        ),
    ];
    for (name, refuse, allow) in cases {
        let fixture = Fixture::committed();
        fixture.write("users.txt", "the user's");
        if name == "hook" {
            refuse(&fixture);
        }
        let repository = fixture.begin(1);
        fixture.write("a.txt", "two");
        fixture.write("new.txt", "1");
        match name {
            "hook" => fixture.write("refuse", ""),
            _ => refuse(&fixture),
        }
        commit(&repository, "m").unwrap_err();
        // Two iterations later, and after another that failed.
        repository.begin_iteration(2).unwrap();
        fixture.write("new.txt", "2");
        repository.commit(2, "m", &CommitPolicy::default()).unwrap_err();
        allow(&fixture);
        fixture.write("by-hand.txt", "the user's");
        repository.begin_iteration(3).unwrap();
        repository.commit(3, "m", &CommitPolicy::default()).unwrap();
        assert_eq!(committed_files(&fixture), ["a.txt", "new.txt"], "{name}");
        assert_eq!(
            fixture.git(&["status", "--porcelain"]),
            "?? by-hand.txt\n?? users.txt",
            "{name}"
        );
    }
}
