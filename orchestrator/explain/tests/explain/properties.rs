//! What holds for all work: nothing is lost, and nothing depends on names.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use ralph_orchestrator_explain::{
    ExplainedPart, FileContent, FileRole, PartRegion, PartVerdict, PatchVariant, VariantOutcome,
    WorkFile, explain,
};

use crate::fixture::{block_on, conditions, explain_work, files, red, word};

/// Texts with all ends of lines, bytes that are not UTF-8, and now and then a huge line.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        6 => prop::sample::select(vec!["a\n", "b\n", "}\n", "\n", "# c\n", "end", "x\r\n", "y\r", "name_one\n"])
            .prop_map(|line| line.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..6),
        1 => (1_000_usize..9_000).prop_map(|length| vec![b'z'; length]),
    ];
    vec(line, 0..25).prop_map(|lines| lines.concat())
}

fn content() -> impl Strategy<Value = Option<FileContent>> {
    prop_oneof![
        1 => Just(None),
        1 => text().prop_map(|target| Some(FileContent::Link { target: target.into() })),
        6 => (text(), any::<bool>()).prop_map(|(bytes, is_executable)| {
            Some(FileContent::Regular { bytes: bytes.into(), is_executable })
        }),
    ]
}

fn work() -> impl Strategy<Value = BTreeMap<String, WorkFile>> {
    let role =
        prop::sample::select(vec![FileRole::Work, FileRole::OwnTest, FileRole::SteersChecks]);
    let file =
        (content(), content(), role).prop_map(|(base, work, role)| WorkFile { base, work, role });
    let path = prop::sample::select(vec!["a", "a/b", "c.py", "d.rs", "README.md", "a/b/c"]);
    prop::collection::btree_map(path.prop_map(str::to_owned), file, 1..5)
}

/// Sees each variant; all are red but the work itself.
struct Recorder {
    variants: Vec<PatchVariant>,
    answers: Vec<u8>,
}

#[async_trait::async_trait]
impl ralph_orchestrator_explain::VariantChecker for Recorder {
    async fn check_variant(
        &mut self,
        variant: &PatchVariant,
        _: std::time::Duration,
    ) -> ralph_orchestrator_explain::CheckedVariant {
        let answer = self.answers.get(self.variants.len() % self.answers.len().max(1));
        self.variants.push(variant.clone());
        let outcome = match answer.copied().unwrap_or(0) % 6 {
            0 | 1 => VariantOutcome::Green,
            2 => red(&["t"]),
            3 => red(&[]),
            4 => crate::fixture::not_built(),
            _ => VariantOutcome::DidNotEnd,
        };
        let rewritten = variant.files.keys().filter(|_| answer == Some(&7)).cloned().collect();
        ralph_orchestrator_explain::CheckedVariant { outcome, rewritten }
    }

    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.variants.len() as u64)
    }
}

/// The regions of a file, as lines before and in each hunk; nothing for a file that is one part.
fn hunks(base: &[u8], work: &[u8]) -> Vec<(usize, usize, usize, usize)> {
    let content = |bytes: &[u8]| Some(FileContent::from_bytes(bytes.to_vec()));
    let file = WorkFile { base: content(base), work: content(work), role: FileRole::Work };
    let found = explain_work(&BTreeMap::from([("f".to_owned(), file)]), |_, _| red(&["t"]));
    let hunk = |part: &ExplainedPart| match part.region {
        PartRegion::Hunk { base, work } => Some((base.start, base.count, work.start, work.count)),
        PartRegion::Mode | PartRegion::File { .. } => None,
    };
    found.parts.iter().filter_map(hunk).collect()
}

#[test]
fn divides_a_file_into_hunks() {
    let long = |letter: &str| format!("same\n{}", format!("{letter}\n").repeat(6_000));
    let apart = "1\n2\n3\n4\n5\n6\n7\nold\n".to_owned();
    type Row<'a> = (&'a [u8], &'a [u8], &'a [(usize, usize, usize, usize)]);
    let rows: &[Row<'_>] = &[
        (b"a\nb\n", b"a\nc\n", &[(1, 1, 1, 1)]),
        (b"a\nb", b"a\nb\n", &[(1, 1, 1, 1)]),
        (b"a\r\nb\r\n", b"a\r\nc\r\n", &[(1, 1, 1, 1)]),
        (b"", b"a\n", &[(0, 0, 0, 1)]),
        (b"1\n2\n3\n4\n5\n6\nold\n", b"new\n1\n2\n3\n4\n5\n6\n", &[(0, 7, 0, 7)]),
        (b"a\xff\nb\n", b"c\xff\nb\n", &[(0, 1, 0, 1)]),
        (b"a\0\n", b"b\0\n", &[]),
    ];
    for (base, work, expected) in rows {
        assert_eq!(&hunks(base, work), expected, "{}", String::from_utf8_lossy(base));
    }
    let moved = format!("new\n{}", apart.replace("old\n", ""));
    assert_eq!(hunks(apart.as_bytes(), moved.as_bytes()).len(), 2);
    assert_eq!(hunks(long("a").as_bytes(), long("b").as_bytes()), [(1, 6_000, 1, 6_000)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever the checks say: it ends without a panic, each variant has the changed files, and two searches agree.
    #[test]
    fn whatever_the_checks_say_the_search_ends(work in work(), answers in vec(any::<u8>(), 1..40)) {
        let run = || {
            let mut recorder = Recorder { variants: Vec::new(), answers: answers.clone() };
            let found = block_on(explain(&work, &conditions(red(&["t"]), 300), &mut recorder));
            (found, recorder.variants)
        };
        let (found, variants) = run();
        let changed: Vec<_> = work.iter().filter(|(_, file)| file.base != file.work).collect();
        for variant in &variants {
            prop_assert!(variant.files.keys().eq(changed.iter().map(|(path, _)| *path)));
        }
        prop_assert_eq!(run(), (found, variants));
    }

    /// Without the only unit of two files, each of these is in turn its base and the work, byte for byte.
    #[test]
    fn all_parts_are_the_work_and_none_is_the_base(base in text(), work in text()) {
        let content = |bytes: &[u8]| Some(FileContent::from_bytes(bytes.to_vec()));
        let file = |base: &[u8], work: &[u8]| {
            WorkFile { base: content(base), work: content(work), role: FileRole::Work }
        };
        let mut files = BTreeMap::from([("README.md".to_owned(), file(&base, &work))]);
        files.insert("zz.py".to_owned(), file(b"1\n", b"2\n"));
        let mut recorder = Recorder { variants: Vec::new(), answers: vec![0] };
        block_on(explain(&files, &conditions(red(&["t"]), 300), &mut recorder));
        let holds = |readme: &[u8]| recorder.variants.iter().any(|variant| {
            variant.files.get("README.md").is_none_or(|held| *held == content(readme))
        });
        prop_assert!(base == work || (holds(&base) && holds(&work)));
    }

    /// Other names of the files do not change what is said about them.
    #[test]
    fn verdicts_do_not_depend_on_the_order_of_files(
        order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
        clauses in vec(vec(0..6_usize, 1..4), 0..4),
    ) {
        let verdicts = |names: &[usize]| {
            let paths: Vec<String> = names.iter().map(|name| format!("f{name}.py")).collect();
            let rows: Vec<_> = paths.iter().map(|path| (path.as_str(), "old\n", "now\n")).collect();
            let found = explain_work(&files(&rows), |tree, _| {
                let holds = |part: &usize| tree[&paths[*part]] == "now\n";
                match clauses.iter().all(|clause| clause.iter().any(holds)) {
                    true => VariantOutcome::Green,
                    false => red(&["t"]),
                }
            });
            let of_path = |path: &String| {
                let part = found.parts.iter().find(|part| part.path == *path).unwrap();
                match &part.verdict {
                    PartVerdict::OneIsEnough { .. } => "one".to_owned(),
                    other => word(other),
                }
            };
            paths.iter().map(of_path).collect::<Vec<_>>()
        };
        let plain = verdicts(&[0, 1, 2, 3, 4, 5]);
        let needed = |said: &[String]| said.iter().map(|word| word == "needed t").collect::<Vec<_>>();
        prop_assert_eq!(needed(&plain), needed(&verdicts(&order)));
        // With clauses that share no part there is only one way to say it.
        let mut all: Vec<usize> = clauses.iter().flat_map(|c| c.iter().copied().collect::<std::collections::BTreeSet<_>>()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        if all.len() == count {
            prop_assert_eq!(&plain, &verdicts(&order));
        }
    }
}
