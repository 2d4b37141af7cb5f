//! Whether trials see the program of an agent.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::Sandbox;
use ralph_orchestrator_supervisor::Root;

/// Returns the path that would have to be in `[sandbox] read` for trials with a file system of their own to see this
/// program; none if they see it. A link is followed, since what it leads to has to be there as well.
pub(crate) fn find_hidden_program(program: &Path, sandbox: &Sandbox) -> Option<PathBuf> {
    let mut seen = Root::default().system;
    seen.extend(sandbox.read.iter().chain(&sandbox.write).cloned());
    let resolved: Vec<PathBuf> = seen.iter().filter_map(|path| path.canonicalize().ok()).collect();
    if !seen.iter().any(|path| program.starts_with(path)) {
        return Some(program.to_owned());
    }
    let real = program.canonicalize().ok()?;
    (!resolved.iter().any(|path| real.starts_with(path))).then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_seen_with_what_its_link_leads_to() {
        let dir = std::env::temp_dir().join(format!("ralph-visibility-{}", std::process::id()));
        let base = dir.join("base");
        std::fs::create_dir_all(base.join("real")).unwrap();
        std::fs::create_dir_all(base.join("links")).unwrap();
        let base = base.canonicalize().unwrap();
        let (real, link) = (base.join("real/agent"), base.join("links/agent"));
        std::fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let hidden = |program: &Path, read: &[&Path]| {
            let read = read.iter().map(|path| path.to_path_buf()).collect();
            find_hidden_program(program, &Sandbox { read, ..Sandbox::default() })
        };
        assert_eq!(hidden(Path::new("/usr/bin/env"), &[]), None);
        assert_eq!(hidden(&real, &[]), Some(real.clone()));
        assert_eq!(hidden(&link, &[&base.join("links")]), Some(real.clone()));
        assert_eq!(hidden(&link, &[&base.join("real")]), Some(link.clone()));
        assert_eq!(hidden(&link, &[&base]), None);
        // A name that begins alike is another folder.
        assert_eq!(
            hidden(&base.join("realm/agent"), &[&base.join("real")]),
            Some(base.join("realm/agent"))
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
