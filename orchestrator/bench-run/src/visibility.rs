//! Whether trials see the programs of agents and tests.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::Sandbox;
use ralph_orchestrator_supervisor::Root;

/// Returns the path that would have to be in `[sandbox] read` for trials with a file system of their own to see this
/// program; none if they see it. A link is followed, since what it leads to has to be there as well.
pub fn find_hidden_program(program: &Path, sandbox: &Sandbox) -> Option<PathBuf> {
    let mut seen = Root::default().system;
    seen.extend(sandbox.read.iter().chain(&sandbox.write).cloned());
    let resolved: Vec<PathBuf> = seen.iter().filter_map(|path| path.canonicalize().ok()).collect();
    if !seen.iter().any(|path| program.starts_with(path)) {
        return Some(program.to_owned());
    }
    let real = program.canonicalize().ok()?;
    (!resolved.iter().any(|path| real.starts_with(path))).then_some(real)
}

/// Returns the part of a search path that the agents of trials with a file system of their own see.
pub fn agent_path(path: &str, sandbox: &Sandbox) -> String {
    let mut seen = Root::default().system;
    seen.extend(sandbox.read.iter().chain(&sandbox.write).cloned());
    let is_seen = |folder: &&str| seen.iter().any(|path| Path::new(folder).starts_with(path));
    path.split(':').filter(is_seen).collect::<Vec<_>>().join(":")
}

/// Returns the part of a search path that the tests of trials with a file system of their own use: folders that they see,
/// and that no agent can write to.
pub fn verifier_path(path: &str, sandbox: &Sandbox) -> String {
    let read_only: Vec<PathBuf> =
        Root::default().system.into_iter().chain(sandbox.read.iter().cloned()).collect();
    // Of paths within each other the inner one decides.
    let nearest = |folder: &Path, paths: &[PathBuf]| {
        let above = paths.iter().filter(|path| folder.starts_with(path));
        above.map(|path| path.components().count()).max()
    };
    let is_used = |folder: &&str| {
        let folder = Path::new(folder);
        let shown = nearest(folder, &read_only);
        shown.is_some() && shown > nearest(folder, &sandbox.write)
    };
    path.split(':').filter(is_used).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_search_where_they_see_and_agents_cannot_write() {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        let path = "/home/me/venv/bin:/opt-tools/bin:/usr/local/bin:/usr/bin:relative";
        let used = |read: &[&str], write: &[&str]| {
            let sandbox = Sandbox { read: paths(read), write: paths(write), ..Sandbox::default() };
            verifier_path(path, &sandbox)
        };
        assert_eq!(used(&[], &[]), "/usr/local/bin:/usr/bin");
        assert_eq!(used(&["/home/me/venv"], &[]), "/home/me/venv/bin:/usr/local/bin:/usr/bin");
        assert_eq!(used(&[], &["/home/me/venv"]), "/usr/local/bin:/usr/bin");
        assert_eq!(used(&["/home/me"], &["/home/me/venv"]), "/usr/local/bin:/usr/bin");
        assert_eq!(
            used(&["/home/me/venv/bin"], &["/home/me"]),
            "/home/me/venv/bin:/usr/local/bin:/usr/bin"
        );
    }

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
        assert_eq!(hidden(&link, &[&base.join("links")]), Some(real));
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
