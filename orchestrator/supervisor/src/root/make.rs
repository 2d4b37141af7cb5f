//! Makes the root of a process that is about to start.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::plan::RootPlan;
use super::{Root, RootError, bubblewrap};
use crate::spec::Spec;

/// Creates the root of a process that is about to start.
#[derive(Clone)]
pub(crate) struct MakeRoot(pub(crate) Arc<dyn Fn() -> io::Result<Root> + Send + Sync>);

impl fmt::Debug for MakeRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeRoot")
    }
}

impl MakeRoot {
    /// Creates the root, and translates the paths of `spec` to those in it.
    pub(crate) fn plan(&self, spec: &mut Spec) -> Result<RootPlan, RootError> {
        let root = self.0().map_err(RootError::Resolve)?;
        let plan = RootPlan::new(&root)?;
        spec.program = root.path_inside(&spec.program);
        spec.cwd = root.path_inside(&spec.cwd);
        if !spec.cwd.is_absolute() {
            return Err(RootError::RelativeFolder { cwd: spec.cwd.clone() });
        }
        if let Some(folder) = spec.env.get_mut("TMPDIR")
            && let Some(inside) = root.path_inside(Path::new(folder)).to_str()
        {
            inside.clone_into(folder);
        }
        Ok(plan)
    }

    /// Creates the root by `bwrap`: what is to be started becomes an argument of it.
    pub(crate) fn wrap(&self, bwrap: &Path, spec: &mut Spec) -> Result<(), RootError> {
        let plan = self.plan(spec)?;
        bubblewrap::wrap(bwrap, &plan, spec);
        Ok(())
    }
}
