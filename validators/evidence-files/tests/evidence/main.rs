//! The validator on real folders.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod bounds;
mod cancel;
mod config;
mod content;
mod failures;
mod fresh;
mod links;
mod messages;
mod predicates;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use ralph_orchestrator_contract::{
    BuildContext, CancelSignal, Claim, ClaimKind, ClaimSource, EvidenceValidator, NeverCancelled,
    ValidationContext, Verdict,
};
use serde_json::Value;
use tempfile::TempDir;

/// A workspace with a prompt file's folder in it.
struct Place {
    root: TempDir,
    written_in: Mutex<BTreeMap<String, u64>>,
    /// Everything that lies in the folder is known.
    listed: bool,
    tree_since: u64,
}

impl Place {
    /// Without an evidence folder.
    fn bare() -> Self {
        let root = TempDir::new().unwrap();
        std::fs::create_dir_all(root.path().join("tasks/a")).unwrap();
        Self { root, written_in: Mutex::default(), listed: true, tree_since: 3 }
    }

    /// With an empty evidence folder.
    fn new() -> Self {
        let place = Self::bare();
        std::fs::create_dir(place.dir()).unwrap();
        place
    }

    fn prompt_dir(&self) -> PathBuf {
        self.root.path().join("tasks/a")
    }

    fn dir(&self) -> PathBuf {
        self.prompt_dir().join("validation-evidence")
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir().join(name)
    }

    fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// Three good files.
    fn write_three(&self) -> &Self {
        self.write("shot.png", gradient(8, 8))
            .write("out.txt", "42 passed\n")
            .write("r.json", "{\"ok\":1}")
    }

    /// Says which iteration wrote a content last.
    fn seen(&self, content: impl AsRef<[u8]>, iteration: u64) {
        let digest = blake3::hash(content.as_ref()).to_hex().to_string();
        self.written_in.lock().unwrap().insert(digest, iteration);
    }

    fn validator(&self, config: Value) -> Box<dyn EvidenceValidator> {
        ralph_validator_evidence_files::build(config, &self.context()).unwrap()
    }

    fn context(&self) -> BuildContext {
        BuildContext {
            config_dir: self.root.path().into(),
            workspace: self.root.path().into(),
            prompt_dir: self.prompt_dir(),
            path: String::new(),
        }
    }

    fn verdict(&self, config: Value) -> Verdict {
        self.verdict_unless(config, &NeverCancelled)
    }

    fn verdict_unless(&self, config: Value, cancel: &dyn CancelSignal) -> Verdict {
        let claim = Claim {
            kind: ClaimKind::Complete,
            detector: "marker".into(),
            source: ClaimSource::State,
            text: String::new(),
        };
        let validator = self.validator(config);
        let context = ValidationContext {
            checkout: &[],
            output: None,
            run: "run",
            iteration: self.tree_since,
            claim: &claim,
            workspace: self.root.path(),
            tree_since: self.tree_since,
            written_in: &self.written_in.lock().unwrap().clone(),
            evidence_listed: self.listed,
            protected_changes: &[],
            env: &BTreeMap::new(),
        };
        finish(validator.validate(context, cancel))
    }

    /// The reasons of a rejection.
    fn reasons(&self, config: Value) -> Vec<String> {
        match self.verdict(config) {
            Verdict::Rejected { reasons } => reasons,
            verdict => panic!("not rejected: {verdict:?}"),
        }
    }

    /// The one reason, beside the headline, why a single file does not count.
    fn refusal(&self, config: Value) -> String {
        let reasons = self.reasons(config);
        assert_eq!(reasons.len(), 2, "{reasons:?}");
        assert!(reasons[0].starts_with("only 0 of 1 "), "{reasons:?}");
        reasons[1].clone()
    }

    /// The names of the files that an accepted verdict rests on.
    fn counted(&self, config: Value) -> Vec<String> {
        match self.verdict(config) {
            Verdict::Accepted { evidence, .. } => evidence
                .iter()
                .map(|file| file.path.strip_prefix(self.dir()).unwrap().display().to_string())
                .collect(),
            verdict => panic!("not accepted: {verdict:?}"),
        }
    }
}

/// The validator wakes itself until it is finished, so polling is all it takes.
fn finish<T>(mut future: std::pin::Pin<Box<dyn Future<Output = T> + Send + '_>>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1_000_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
    panic!("the validator does not come to an end");
}

/// A PNG image with a pixel from `colour` at each place.
fn png(width: u32, height: u32, colour: impl Fn(u32, u32) -> [u8; 3]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let pixels: Vec<u8> = (0..height)
        .flat_map(|y| (0..width).map(move |x| (x, y)))
        .flat_map(|(x, y)| colour(x, y))
        .collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    out
}

fn gradient(width: u32, height: u32) -> Vec<u8> {
    png(width, height, |x, y| [u8::try_from(x % 256).unwrap(), u8::try_from(y % 256).unwrap(), 7])
}
