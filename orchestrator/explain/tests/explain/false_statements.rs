//! Statements that leaving parts out one by one makes, and that are false.

use ralph_orchestrator_explain::{
    FileContent, FileRole, PatchLineKind, StopCause, VariantOutcome, explain, summarize, view_patch,
};

use crate::fixture::{
    Predicate, Tree, block_on, conditions, explain_work, files, not_built, red, verdicts,
};

const GREEN: VariantOutcome = VariantOutcome::Green;

fn has(tree: &Tree, path: &str, text: &str) -> bool {
    tree.get(path).is_some_and(|content| content.contains(text))
}

/// Green or the test `t` failed.
fn t(is_green: bool) -> VariantOutcome {
    if is_green { GREEN } else { red(&["t"]) }
}

#[test]
fn names_alternatives_instead_of_calling_both_unnoticed() {
    let work =
        files(&[("a.py", "x\n", "fast\n"), ("b.py", "y\n", "slow\n"), ("c.py", "z\n", "w\n")]);
    let found =
        explain_work(&work, |tree, _| t(has(tree, "a.py", "fast") || has(tree, "b.py", "slow")));
    assert_eq!(verdicts(&found, "a.py"), ["one of [0]"]);
    assert_eq!(verdicts(&found, "b.py"), ["one of [0]"]);
    assert_eq!(verdicts(&found, "c.py"), ["unnoticed"]);
    assert!(found.is_unnoticed_together);
    let words = summarize(&found);
    assert!(words.contains("One of these is enough: b.py:1, a.py:1."), "{words}");
}

#[test]
fn names_all_of_three_alternatives_and_those_of_several_parts() {
    let rows =
        [("a", "1\n", "aa\n"), ("b", "2\n", "bb\n"), ("c", "3\n", "cc\n"), ("d", "4\n", "dd\n")];
    let work = files(&rows);
    let on = |tree: &Tree, path: &str| has(tree, path, &path.repeat(2));
    let found = explain_work(&work, |tree, _| t(["a", "b", "c"].iter().any(|p| on(tree, p))));
    assert_eq!(found.alternatives.len(), 1);
    assert_eq!(found.alternatives[0].len(), 3);
    let found = explain_work(&work, |tree, _| t(on(tree, "a") && on(tree, "b") || on(tree, "c")));
    let mut group = found.alternatives[0].clone();
    group.sort();
    assert_eq!(group, [vec![0, 1], vec![2]]);
}

#[test]
fn takes_an_insertion_and_a_deletion_nearby_as_one_edit() {
    let base = "def f(x):\n    a = 1\n    b = 2\n    c = 3\n    return x\n";
    let work = "def f(x):\n    return x + 6\n    a = 1\n    b = 2\n    c = 3\n";
    let work = files(&[("f.py", base, work)]);
    let found = explain_work(&work, |tree, _| t(has(tree, "f.py", "x + 6")));
    assert_eq!(verdicts(&found, "f.py"), ["needed t"]);
}

#[test]
fn leaves_a_rename_out_as_one() {
    let core = "def old_name():\n    return 1\n\n\n\n\n\n\n\ndef g():\n    return 2\n";
    let core_work = core.replace("old_name", "new_name").replace("return 2", "return 3");
    let user = "import core\ncore.old_name()\n";
    let user_work = user.replace("old_name", "new_name");
    let mut rows = vec![("core.py", core, core_work.as_str())];
    rows.extend(["u1.py", "u2.py", "u3.py", "u4.py"].map(|path| (path, user, user_work.as_str())));
    let found = explain_work(&files(&rows), |tree, _| {
        let is_new = has(tree, "core.py", "new_name");
        let fits = tree.values().all(|text| text.contains("new_name") == is_new);
        if fits { t(has(tree, "core.py", "return 3")) } else { red(&["other"]) }
    });
    assert_eq!(verdicts(&found, "core.py"), ["unnoticed", "needed t"]);
    assert_eq!(verdicts(&found, "u3.py"), ["unnoticed"]);
    assert!(found.is_unnoticed_together);
    assert!(found.runs <= 2, "{}", found.runs);
}

#[test]
fn leaves_a_changed_signature_out_with_its_calls() {
    let work = files(&[
        ("fix.py", "one\n", "two\n"),
        ("lib.py", "def f(x): pass\n", "def f(x, y): pass\n"),
        ("use.py", "f(x)\n", "f(x, y)\n"),
    ]);
    let found = explain_work(&work, |tree, _| {
        match has(tree, "lib.py", "x, y") == has(tree, "use.py", "x, y") {
            true => t(has(tree, "fix.py", "two")),
            false => not_built(),
        }
    });
    assert_eq!(verdicts(&found, "lib.py"), ["unnoticed"]);
    assert_eq!(verdicts(&found, "use.py"), ["unnoticed"]);
    assert_eq!(verdicts(&found, "fix.py"), ["needed t"]);
}

#[test]
fn keeps_a_fix_apart_from_other_edits_in_the_context_of_a_hunk() {
    let work = files(&[("a.py", "old\nsame\nbug\n", "new\nsame\nfix\n")]);
    let found = explain_work(&work, |tree, _| t(has(tree, "a.py", "fix")));
    assert_eq!(verdicts(&found, "a.py"), ["unnoticed", "needed t"]);
}

#[test]
fn says_that_a_module_holds_the_build() {
    let work =
        files(&[("helper.py", "", "def unused(): pass\n"), ("a.py", "", "import helper\nfix\n")]);
    let found = explain_work(&work, |tree, _| match tree.contains_key("helper.py") {
        false if has(tree, "a.py", "import helper") => not_built(),
        _ => t(has(tree, "a.py", "fix")),
    });
    assert_eq!(verdicts(&found, "helper.py"), ["build"]);
    assert!(summarize(&found).contains("Holds the build: helper.py."));
}

#[test]
fn says_that_only_the_works_own_tests_need_a_part() {
    let work = files(&[
        ("a.py", "bug\n", "fix\n"),
        ("extra.py", "", "def extra(): pass\n"),
        ("own_test.py", "", "from extra import extra\n"),
    ]);
    for is_import in [false, true] {
        let found = explain_work(&work, |tree, _| {
            match tree.contains_key("own_test.py") && !tree.contains_key("extra.py") {
                true if is_import => not_built(),
                true => red(&["test_extra"]),
                false => t(has(tree, "a.py", "fix")),
            }
        });
        assert_eq!(verdicts(&found, "extra.py"), ["own"]);
        assert_eq!(verdicts(&found, "a.py"), ["needed t"]);
        assert_eq!(
            summarize(&found),
            "needed: a.py. Only the work's own tests need: extra.py. The checks are also green \
             without the work's own tests: own_test.py."
        );
    }
}

/// Stale bytecode and stale binaries: each run names the whole content of every changed file, so that a checker writes
/// what went back to the base, too.
#[test]
fn names_every_changed_file_in_each_variant() {
    let work = files(&[("a.py", "bug\n", "fix\n"), ("b.py", "x\n", "y\n"), ("new.py", "", "z\n")]);
    explain_work(&work, |tree, _| {
        assert!(tree.contains_key("a.py") && tree.contains_key("b.py"));
        t(has(tree, "a.py", "fix"))
    });
}

#[test]
fn a_failure_that_is_not_repeated_is_unstable() {
    let work = files(&[("a.py", "bug\n", "fix\n"), ("b.py", "x\n", "y\n"), ("c.py", "x\n", "z\n")]);
    let mut failures = 0;
    let found = explain_work(&work, |tree, _| {
        if !has(tree, "a.py", "fix") {
            return red(&["t", "flaky"]);
        }
        if !has(tree, "b.py", "y") {
            failures += 1;
            return if failures == 1 { red(&["flaky"]) } else { GREEN };
        }
        if !has(tree, "c.py", "z") {
            return red(&["regression"]);
        }
        GREEN
    });
    assert_eq!(verdicts(&found, "a.py"), ["needed t"]);
    assert_eq!(verdicts(&found, "b.py"), ["unstable"]);
    assert_eq!(verdicts(&found, "c.py"), ["needed regression"]);
}

#[test]
fn says_that_checks_do_not_end() {
    let work = files(&[("a.py", "while 1: 0\n", "for _ in x: 0\n")]);
    let found = explain_work(&work, |tree, _| match has(tree, "a.py", "for") {
        true => GREEN,
        false => VariantOutcome::DidNotEnd,
    });
    // Without its only part the work is the base, whose result is known.
    assert_eq!(verdicts(&found, "a.py"), ["needed t"]);
    let work = files(&[("a.py", "while 1: 0\n", "for _ in x: 0\n"), ("b.py", "u\n", "v\n")]);
    let found = explain_work(&work, |tree, _| match has(tree, "a.py", "for") {
        true => GREEN,
        false => VariantOutcome::DidNotEnd,
    });
    assert_eq!(verdicts(&found, "a.py"), ["endless"]);
    assert!(summarize(&found).contains("The checks do not end within 5.0 s without: a.py."));
}

#[test]
fn says_nothing_about_files_that_the_checks_write() {
    let mut work = files(&[
        ("a.py", "bug\n", "fix\n"),
        ("Cargo.lock", "1\n", "2\n"),
        ("known.lock", "1\n", "2\n"),
    ]);
    work.get_mut("known.lock").unwrap().role = FileRole::RewrittenByChecks;
    let rewrites = Some(("Cargo.lock".to_owned(), "2\n".to_owned()));
    let check = |tree: &Tree, _: u64| {
        assert!(has(tree, "known.lock", "2"));
        t(has(tree, "a.py", "fix"))
    };
    let mut checker = Predicate { check, rewrites, runs: 0 };
    let found = block_on(explain(&work, &conditions(red(&["t"]), 100), &mut checker));
    assert_eq!(verdicts(&found, "Cargo.lock"), ["rewritten"]);
    assert_eq!(verdicts(&found, "known.lock"), ["rewritten"]);
    assert_eq!(verdicts(&found, "a.py"), ["needed t"]);
}

#[test]
fn calls_no_part_unneeded_and_counts_hunks() {
    let base = "a\n=\nb\n=\nc\n=\nd\n";
    let tax = "A\n=\nB\n=\nC\n=\nD\n";
    let report = "x\n=\ny\n=\nc\n=\nd\n";
    let work = files(&[
        ("src/tax.rs", base, tax),
        ("src/report.rs", base, report),
        ("README.md", "a\n", "b\n"),
    ]);
    let found = explain_work(&work, |tree, _| {
        t(["A", "B", "D"].iter().all(|letter| has(tree, "src/tax.rs", letter)))
    });
    assert_eq!(
        summarize(&found),
        "needed: src/tax.rs (3 of 4 hunks). No check notices if these are gone: README.md, \
         src/report.rs (2 hunks), src/tax.rs (1 of 4 hunks) at line 5."
    );
}

#[test]
fn names_settings_that_steer_the_checks_apart() {
    let work =
        files(&[("calc.py", "bug\n", "fix\n"), ("pyproject.toml", "a = 1\n", "addopts = 2\n")]);
    let found = explain_work(&work, |tree, _| t(has(tree, "pyproject.toml", "addopts")));
    assert_eq!(
        summarize(&found),
        "No check notices if these are gone: calc.py. Steers the checks: pyproject.toml:1 \
         (needed: t fails without it)."
    );
}

#[test]
fn holds_a_run_back_for_the_common_one_and_says_what_was_not_tried() {
    let rows =
        [("a", "1\n", "aa\n"), ("b", "2\n", "bb\n"), ("c", "3\n", "cc\n"), ("d", "4\n", "dd\n")];
    // Without anything that no check notices there is no common run.
    for (is_green, budget, tried) in [
        (true, 0, 0),
        (true, 1, 1),
        (true, 3, 2),
        (true, 4, 3),
        (true, 100, 4),
        (false, 1, 1),
        (false, 3, 3),
        (false, 100, 4),
    ] {
        let check = |_: &Tree, _: u64| t(is_green);
        let mut checker = Predicate { check, rewrites: None, runs: 0 };
        let found =
            block_on(explain(&files(&rows), &conditions(red(&["t"]), budget), &mut checker));
        let unnoticed =
            found.parts.iter().filter(|part| format!("{:?}", part.verdict) != "NotTried").count();
        assert_eq!(unnoticed, tried, "{budget}");
        assert!(found.runs <= budget);
        assert_eq!(found.stopped, (tried < 4).then_some(StopCause::Budget), "{budget}");
        let said = summarize(&found);
        let took = format!(
            "explained in part: {tried} of 4 parts tried in {}.0 s; a further run of the checks",
            found.runs
        );
        assert_eq!(said.starts_with(&took), tried < 4, "{said}");
    }
}

#[test]
fn an_error_is_repeated_once_and_ends_the_search() {
    let work = files(&[("a", "1\n", "aa\n"), ("b", "2\n", "bb\n")]);
    let error = || VariantOutcome::Error("no disk".to_owned());
    let found = explain_work(&work, |_, run| if run == 1 { error() } else { red(&["t"]) });
    assert_eq!(verdicts(&found, "a"), ["needed t"]);
    let found = explain_work(&work, |_, _| error());
    assert_eq!(verdicts(&found, "a"), ["not tried"]);
    assert_eq!(
        summarize(&found),
        "explained in part: 0 of 2 parts tried, then the checks could not run (no disk). Not tried: a, b."
    );
}

#[test]
fn a_file_and_a_folder_in_its_place_are_left_out_together() {
    let work = files(&[("a", "text\n", ""), ("a/b", "", "b\n"), ("c", "bug\n", "fix\n")]);
    let found = explain_work(&work, |tree, _| {
        assert!(!(tree.contains_key("a") && tree.contains_key("a/b")));
        t(has(tree, "c", "fix"))
    });
    assert_eq!(verdicts(&found, "a"), ["unnoticed"]);
    assert_eq!(verdicts(&found, "a/b"), ["unnoticed"]);
}

#[test]
fn a_mode_is_a_part_of_its_own() {
    let mut work = files(&[("run.sh", "a\n", "b\n"), ("other", "1\n", "2\n")]);
    let bytes = b"b\n".to_vec().into();
    work.get_mut("run.sh").unwrap().work =
        Some(FileContent::Regular { bytes, is_executable: true });
    let found = explain_work(&work, |tree, _| t(has(tree, "run.sh", "b")));
    assert_eq!(verdicts(&found, "run.sh"), ["unnoticed", "needed t"]);
    let page = view_patch(&work, &found);
    let hunk =
        page.iter().find(|hunk| hunk.part.path == "run.sh" && !hunk.lines.is_empty()).unwrap();
    let lines: Vec<_> = hunk.lines.iter().map(|line| (line.kind, line.text.as_str())).collect();
    assert_eq!(lines, [(PatchLineKind::Removed, "a"), (PatchLineKind::Added, "b")]);
    let json = serde_json::to_value(&page).unwrap();
    assert_eq!(json[2]["verdict"]["kind"], "needed");
    assert_eq!(json[2]["region"]["base"]["count"], 1);
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(
        serde_json::from_str::<ralph_orchestrator_explain::Explanation>(&text).unwrap(),
        found
    );
}

#[test]
fn a_cluster_that_is_most_of_the_work_is_tried_by_its_files() {
    let one = "1\n=\n2\n=\n3\n";
    let both = "word\n=\nword\n=\nword\n";
    let work = files(&[("a.py", one, both), ("b.py", one, both)]);
    let found = explain_work(&work, |tree, _| t(tree["a.py"] == both));
    assert_eq!(verdicts(&found, "a.py"), ["needed t"; 3]);
    assert_eq!(verdicts(&found, "b.py"), ["unnoticed"; 3]);
    // Two files, three hunks.
    assert_eq!(found.runs, 5);
}

#[test]
fn a_moved_file_is_left_out_as_one() {
    let work = files(&[("a.py", "body\n", ""), ("lib/a.py", "", "body\n"), ("c.py", "x\n", "y\n")]);
    let found = explain_work(&work, |tree, _| {
        match tree.contains_key("a.py") == tree.contains_key("lib/a.py") {
            true => red(&["twice"]),
            false => t(has(tree, "c.py", "y")),
        }
    });
    assert_eq!(verdicts(&found, "a.py"), ["unnoticed"]);
    assert_eq!(verdicts(&found, "lib/a.py"), ["unnoticed"]);
    assert_eq!(verdicts(&found, "c.py"), ["needed t"]);
}

#[test]
fn alternatives_are_no_guess_where_a_result_does_not_repeat() {
    let work = files(&[("a.py", "1\n", "2\n"), ("b.py", "1\n", "2\n"), ("c.py", "1\n", "2\n")]);
    let found = explain_work(&work, |tree, run| match tree.values().all(|text| text == "2\n") {
        _ if !has(tree, "c.py", "2") => red(&["t"]),
        // The common run fails, and does not when it is repeated.
        false if run == 4 => red(&["flaky"]),
        _ => GREEN,
    });
    assert!(found.alternatives.is_empty() && !found.is_unnoticed_together);
    assert_eq!(
        summarize(&found),
        "needed: c.py. No check notices if one of these is gone; all together were not tried: \
         a.py, b.py."
    );
}
