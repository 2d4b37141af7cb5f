//! Coming to a verdict.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::{EvidenceAge, EvidenceFile, ValidationContext, Verdict};
use regex::Regex;
use rustix::fs::{FileType, Stat, fstat};

use crate::EvidenceFiles;
use crate::config::{Fresh, ReportsFailure, Settings};
use crate::content::{self, Content};
use crate::cooperative::{Cancellable, STRIDE, Yielder};
use crate::failure;
use crate::reasons::{bytes, files, quote, rejected, show};
use crate::walk::{Entry, MOST_ENTRIES, NoFolder, Walk, errno_text, extension};

/// What has been found so far.
struct Found<'a> {
    settings: &'a Settings,
    context: ValidationContext<'a>,
    counted: Vec<EvidenceFile>,
    /// Of the counted files, how many there are of each type.
    types: BTreeMap<String, usize>,
    /// The path of each content that counts.
    paths: BTreeMap<String, PathBuf>,
    /// How many files were fresh, whether they count or not.
    fresh: usize,
    /// What does not count, and why not.
    ignored: Vec<(PathBuf, String)>,
    /// For each of `must_match`, whether it was found.
    matched: Vec<bool>,
    /// What `must_not_match` and `reports_failure` found.
    unwanted: Vec<String>,
    bytes_read: u64,
}

/// A limit that the evidence exceeds: nothing more is read.
enum LimitExceeded {
    Files,
    Bytes,
}

/// A file's whole content, or what is wrong with the file.
type Whole = Result<Vec<u8>, String>;

impl EvidenceFiles {
    pub(crate) async fn examine(
        &self,
        context: ValidationContext<'_>,
        yielder: &mut Yielder<'_>,
    ) -> Cancellable<Verdict> {
        let settings = &self.settings;
        let extensions = &settings.extensions;
        let walk = match Walk::new(&self.prompt_dir, &settings.dir, &self.path, extensions) {
            Ok(walk) => walk,
            Err(error) => return Ok(Verdict::rejected(self.no_folder(&error))),
        };
        let mut found = Found::new(settings, context);
        for entry in walk {
            yielder.yield_now().await?;
            let exceeded = match entry {
                Entry::File(path, file) => found.file(&self.path, path, file, yielder).await?,
                Entry::Rejected(path, why) => {
                    found.ignored.push((path, why));
                    None
                }
                Entry::TooMany => {
                    return Ok(Verdict::rejected(format!(
                        "`{}` holds more than {MOST_ENTRIES} files: remove what is no evidence",
                        self.shown
                    )));
                }
            };
            if let Some(exceeded) = exceeded {
                return Ok(Verdict::rejected(self.limit_reason(&exceeded)));
            }
        }
        Ok(self.verdict(found))
    }

    fn no_folder(&self, error: &NoFolder) -> String {
        let Self { shown, settings, .. } = self;
        let wanted = format!("{} ({})", files(settings.min_files), self.types());
        match error {
            NoFolder::Missing => format!(
                "evidence directory `{shown}` not found: create {} and put at least {wanted} in it \
                 that show that the work is done",
                show(&self.path)
            ),
            NoFolder::Link => format!(
                "evidence directory `{shown}` is reached by a link: make it a real folder with at \
                 least {wanted} in it"
            ),
            NoFolder::InTheWay => format!(
                "evidence directory `{shown}` is not a folder: make it one with at least {wanted} \
                 in it"
            ),
            NoFolder::Other(errno) => format!(
                "evidence directory `{shown}` cannot be opened: {}; make it readable",
                errno_text(*errno)
            ),
        }
    }

    fn limit_reason(&self, exceeded: &LimitExceeded) -> String {
        let Settings { max_files, max_file_size, .. } = self.settings;
        match exceeded {
            LimitExceeded::Files => format!(
                "`{}` holds more than max_files = {max_files} fresh files: keep the ones that show \
                 best that the work is done, remove the others",
                self.shown
            ),
            LimitExceeded::Bytes => format!(
                "`{}` holds more than {} of files: remove what is no evidence",
                self.shown,
                bytes(most_bytes(max_files, max_file_size))
            ),
        }
    }

    fn verdict(&self, found: Found<'_>) -> Verdict {
        let settings = &self.settings;
        let mut reasons = Vec::new();
        let enough = found.counted.len() >= settings.min_files;
        if !enough {
            reasons.push(self.too_few(&found));
        }
        for (regex, _) in
            settings.must_match.iter().zip(&found.matched).filter(|(_, found)| !**found)
        {
            reasons.push(format!(
                "no counted text or JSON file in `{}` matches `{regex}` (must_match): add evidence \
                 that does",
                self.shown
            ));
        }
        reasons.extend(found.unwanted);
        if !enough {
            let ignored_files = found.ignored.iter();
            reasons.extend(ignored_files.map(|(path, why)| format!("`{}` {why}", show(path))));
        }
        if !reasons.is_empty() {
            return rejected(reasons);
        }
        let types: Vec<_> =
            found.types.iter().map(|(extension, count)| format!("{count} {extension}")).collect();
        let summary =
            format!("{} in `{}`: {}", files(found.counted.len()), self.shown, types.join(", "));
        Verdict::Accepted { summary, evidence: found.counted }
    }

    fn too_few(&self, found: &Found<'_>) -> String {
        let Self { shown, settings: Settings { min_files, .. }, .. } = self;
        let (has, types) = (found.counted.len(), self.types());
        let show_it = "that show that the work is done";
        if has == 0 && found.ignored.is_empty() {
            return format!(
                "no evidence files in `{shown}`: put at least {} ({types}) in it {show_it}",
                files(*min_files)
            );
        }
        format!(
            "only {has} of {min_files} evidence files in `{shown}` count: add {} ({types}) {show_it}",
            files(min_files - has)
        )
    }
}

impl<'a> Found<'a> {
    fn new(settings: &'a Settings, context: ValidationContext<'a>) -> Self {
        Self {
            settings,
            context,
            counted: Vec::new(),
            types: BTreeMap::new(),
            paths: BTreeMap::new(),
            fresh: 0,
            ignored: Vec::new(),
            matched: vec![false; settings.must_match.len()],
            unwanted: Vec::new(),
            bytes_read: 0,
        }
    }

    /// Looks at one file.
    async fn file(
        &mut self,
        folder: &Path,
        path: PathBuf,
        file: File,
        yielder: &mut Yielder<'_>,
    ) -> Cancellable<Option<LimitExceeded>> {
        let content = match read(file, self.settings.max_file_size, yielder).await? {
            Ok(content) => content,
            Err(why) => {
                self.ignored.push((path, why));
                return Ok(None);
            }
        };
        let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
        self.bytes_read = self.bytes_read.saturating_add(size);
        let Settings { max_files, max_file_size, .. } = *self.settings;
        if self.bytes_read > most_bytes(max_files, max_file_size) {
            return Ok(Some(LimitExceeded::Bytes));
        }
        let digest = blake3::hash(&content).to_hex().to_string();
        if let Some(why) = self.age_or_copy(&digest) {
            self.ignored.push((path, why));
            return Ok(None);
        }
        self.fresh += 1;
        if self.fresh > max_files {
            return Ok(Some(LimitExceeded::Files));
        }
        let extension = extension(&path).unwrap_or_default();
        let min_side = self.settings.min_image_size;
        match content::check(&content, &extension, min_side, yielder).await? {
            Err(why) => self.ignored.push((path, why)),
            Ok(content) => {
                if let Content::Text(text) = content {
                    self.predicates(&path, text);
                    self.failure(&path, text, yielder).await?;
                }
                *self.types.entry(extension).or_default() += 1;
                self.paths.insert(digest.clone(), path.clone());
                self.counted.push(EvidenceFile { path: folder.join(path), digest, bytes: size });
            }
        }
        Ok(None)
    }

    /// Why a content does not count, if it is stale or was there already.
    fn age_or_copy(&self, digest: &str) -> Option<String> {
        if let Some(first) = self.paths.get(digest) {
            return Some(format!("is a copy of `{}`, which is counted once", show(first)));
        }
        let tree_since = self.context.tree_since;
        match (self.settings.fresh, self.context.evidence_age(digest)) {
            (Fresh::Any, _) | (_, EvidenceAge::New) | (Fresh::Run, EvidenceAge::Iteration(_)) => None,
            (_, EvidenceAge::BeforeRun) if !self.context.evidence_listed => Some(
                "is stale: the evidence directory held too many files to tell its content from what \
                 was there before this run. Remove what is no evidence, then begin a new run"
                    .to_owned(),
            ),
            (_, EvidenceAge::BeforeRun) => Some(
                "is stale: its content was there before this run began, which proves nothing about \
                 this run. Make it from the work as it is now, and let it say when it was made"
                    .to_owned(),
            ),
            (Fresh::Tree, EvidenceAge::Iteration(written)) => (written < tree_since).then(|| {
                format!(
                    "is stale: it was written in iteration {written}, but the work was changed in \
                     iteration {tree_since}. Make it again from the work as it is now; the same content \
                     counts if it is written anew"
                )
            }),
        }
    }

    fn predicates(&mut self, path: &Path, text: &str) {
        let wanted = self.settings.must_match.iter().zip(&mut self.matched);
        for (regex, matched) in wanted {
            *matched = *matched || regex.is_match(text);
        }
        for regex in &self.settings.must_not_match {
            if let Some(line) = line_of(regex, text) {
                self.unwanted.push(format!(
                    "`{}` line {line} matches `{regex}` (must_not_match): the evidence has to show \
                     that it works",
                    show(path)
                ));
            }
        }
    }

    /// Evidence that says itself that something failed proves that the work is not done.
    async fn failure(
        &mut self,
        path: &Path,
        text: &str,
        yielder: &mut Yielder<'_>,
    ) -> Cancellable<()> {
        if self.settings.reports_failure == ReportsFailure::Allow {
            return Ok(());
        }
        if let Some(failure) = failure::find(text, yielder).await? {
            self.unwanted.push(format!(
                "`{}` line {} reports a failure ({}): `{}`. Make it pass, then write the file \
                 again; keep results from before elsewhere (reports_failure)",
                show(path),
                failure.line,
                failure.tool,
                quote(&failure.text)
            ));
        }
        Ok(())
    }
}

fn line_of(regex: &Regex, text: &str) -> Option<usize> {
    let found = regex.find(text)?;
    let before = text.get(..found.start())?;
    Some(before.bytes().filter(|byte| *byte == b'\n').count() + 1)
}

fn most_bytes(max_files: usize, max_file_size: u64) -> u64 {
    u64::try_from(max_files).unwrap_or(u64::MAX).saturating_mul(max_file_size)
}

/// Reads a file whole, if it is a regular one with one name, not too large, and stays as it is
/// meanwhile.
async fn read(mut file: File, most: u64, yielder: &mut Yielder<'_>) -> Cancellable<Whole> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}; make it readable");
    let before = match fstat(&file) {
        Ok(stat) => stat,
        Err(errno) => return Ok(Err(unreadable(errno.into()))),
    };
    let size = u64::try_from(before.st_size).unwrap_or(u64::MAX);
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
        return Ok(Err("is not a regular file".into()));
    }
    if size == 0 {
        return Ok(Err("is empty".into()));
    }
    if before.st_nlink > 1 {
        let names = before.st_nlink;
        return Ok(Err(format!("has {names} names (hard links); put a file of its own there")));
    }
    if size > most {
        let (size, most) = (bytes(size), bytes(most));
        return Ok(Err(format!("is too large: {size}, at most max_file_size = {most} is read")));
    }
    let mut content = Vec::new();
    let mut block = vec![0; STRIDE.min(usize::try_from(size).unwrap_or(STRIDE).saturating_add(1))];
    loop {
        match file.read(&mut block) {
            Ok(0) => break,
            Ok(length) => content.extend_from_slice(block.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Ok(Err(unreadable(error))),
        }
        yielder.yield_now().await?;
        if u64::try_from(content.len()).unwrap_or(u64::MAX) > size {
            break;
        }
    }
    let same = fstat(&file).is_ok_and(|after| stamp(&after) == stamp(&before))
        && u64::try_from(content.len()) == Ok(size);
    Ok(if same {
        Ok(content)
    } else {
        Err("was written to while it was read; claim when all is written".into())
    })
}

/// What a change of content changes.
fn stamp(stat: &Stat) -> impl PartialEq + use<> {
    (
        (stat.st_dev, stat.st_ino, stat.st_nlink, stat.st_size),
        (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec),
    )
}
