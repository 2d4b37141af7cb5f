//! The globs of what validators protect: one that protects nothing is a mistake.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{ConfigErrors, LoadedConfig};
use ralph_orchestrator_workspace::{Baseline, ProtectedError, ProtectedPaths};

use super::error::EngineError;
use super::validation_policy::{CompletionPolicy, find_glob_key};

impl CompletionPolicy {
    /// Takes the baseline of everything that is protected, when a run begins.
    pub(super) fn take_baseline(
        &self,
        loaded: &LoadedConfig,
        workspace: &Path,
    ) -> Result<Baseline, EngineError> {
        let failed = |error: ProtectedError| EngineError::Workspace(error.to_string());
        let mut baseline = Baseline::take(workspace, &self.protects()).map_err(failed)?;
        self.refuse_unmatched(loaded, workspace, &baseline)?;
        let reserved: Vec<String> =
            self.validators.iter().flat_map(|check| check.validator.reserved_paths()).collect();
        baseline.reserve(workspace, &reserved).map_err(failed)?;
        let outside = self.validators.iter().flat_map(|check| check.validator.outside_files());
        baseline.add_outside(workspace, outside);
        let passed = self.validators.iter().flat_map(|check| check.validator.passed_paths());
        baseline.add_passed(workspace, passed);
        Ok(baseline)
    }

    /// Refuses globs that match nothing in the workspace, or in the template that it would be made from.
    /// Where there is neither, nothing is checked.
    ///
    /// # Errors
    /// All such globs, each with its place; or that the workspace cannot be read.
    pub fn check_globs(&self, loaded: &LoadedConfig) -> Result<(), EngineError> {
        let run = &loaded.config.run;
        let template = run.template.as_deref().filter(|_| !run.workspace.exists());
        let place = template.unwrap_or(&run.workspace);
        if !place.is_dir() {
            return Ok(());
        }
        let failed = |error: ProtectedError| EngineError::Workspace(error.to_string());
        let baseline = Baseline::take(place, &self.protects()).map_err(failed)?;
        Ok(self.refuse_unmatched(loaded, place, &baseline)?)
    }

    fn refuse_unmatched(
        &self,
        loaded: &LoadedConfig,
        place: &Path,
        baseline: &Baseline,
    ) -> Result<(), ConfigErrors> {
        let mut errors = Vec::new();
        // Both are in the order of the configuration.
        for (check, config) in self.validators.iter().zip(&loaded.config.validators) {
            for glob in check.validator.protects() {
                let is_unmatched = !baseline.has_match(&glob).unwrap_or(true);
                let message = if let Some(link) =
                    is_unmatched.then(|| find_link(place, &glob)).flatten()
                {
                    describe_link(place, &glob, &link)
                } else if is_unmatched {
                    format!(
                        "the glob {glob:?} matches nothing in {}, so it protects nothing: name what is \
                         there, relative to the workspace, or remove it",
                        place.display()
                    )
                } else if let Some(target) = unprotected_target(place, baseline, &glob) {
                    format!(
                        "the glob {glob:?} matches only links, which are protected, but not what they \
                         lead to: add {target:?}"
                    )
                } else {
                    continue;
                };
                errors.push(loaded.error_at(
                    &find_glob_key(&check.key, &config.config, &glob),
                    None,
                    &message,
                ));
            }
        }
        ConfigErrors::ensure_none(errors)
    }
}

/// Returns the link on the way to what a glob names.
fn find_link(place: &Path, glob: &str) -> Option<PathBuf> {
    let is_plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
    let folders = glob.split('/').take_while(is_plain).scan(PathBuf::new(), |path, part| {
        path.push(part);
        Some(path.clone())
    });
    folders.into_iter().find(|path| place.join(path).is_symlink())
}

/// Says that a glob names what is behind a link, and what helps.
fn describe_link(place: &Path, glob: &str, link: &Path) -> String {
    let real = place.join(link).canonicalize().ok();
    let inside = real.zip(place.canonicalize().ok()).and_then(|(real, place)| {
        real.strip_prefix(place).ok().map(|inside| inside.display().to_string())
    });
    let advice = match inside {
        Some(inside) => format!("name {inside:?} instead"),
        None => "put a copy of what it leads to in its place".to_owned(),
    };
    let target = place.join(link).read_link().unwrap_or_default();
    format!(
        "the glob {glob:?} protects nothing in {}: {} is a link, to {}, and nothing behind a link is protected; {advice}",
        place.display(),
        link.display(),
        target.display()
    )
}

/// What a link leads to in the workspace without being protected itself, if the glob matches nothing but
/// links.
fn unprotected_target(place: &Path, baseline: &Baseline, glob: &str) -> Option<PathBuf> {
    let place = place.canonicalize().ok()?;
    let matching = ProtectedPaths::new(&[glob.to_owned()]).ok()?;
    let mut links = baseline.paths().filter(|path| matching.contains(path)).peekable();
    links.peek()?;
    let mut unprotected = None;
    for path in links {
        let path = place.join(path);
        if !path.is_symlink() {
            return None;
        }
        let Ok(real) = path.canonicalize() else { continue };
        let Ok(target) = real.strip_prefix(&place) else { continue };
        if !baseline.paths().any(|path| path.starts_with(target)) {
            let all = if real.is_dir() { target.join("**") } else { target.to_owned() };
            unprotected.get_or_insert(all);
        }
    }
    unprotected
}

#[cfg(test)]
mod tests {
    use std::fs::create_dir_all;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_glob_that_names_what_is_behind_a_link_is_told_so() {
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("w");
        create_dir_all(place.join("real/in")).unwrap();
        create_dir_all(temp.path().join("out")).unwrap();
        symlink("../out", place.join("tests")).unwrap();
        symlink("in", place.join("real/link")).unwrap();
        let rows = [
            ("tests/**", "tests is a link, to ../out, and", "; put a copy of what it leads to in"),
            ("real/link/a.py", "real/link is a link, to in, and", "; name \"real/in\" instead"),
        ];
        for (glob, says, advises) in rows {
            let link = find_link(&place, glob).unwrap();
            let said = describe_link(&place, glob, &link);
            assert!(said.contains(says) && said.contains(advises), "{said}");
        }
        for glob in ["real/in/*", "*/link", "no/where"] {
            assert_eq!(find_link(&place, glob), None, "{glob}");
        }
    }
}
