//! The files that agents read, as they were when a run first needed them.

use super::super::chain;
use super::super::error::StateError;
use super::super::kept::KeptFile;
use super::super::layout::Layout;
use super::Store;

impl Store {
    /// What was kept of them in the open run, a JSON object; `None` if nothing was.
    ///
    /// # Errors
    /// It cannot be read, or was changed from outside.
    pub fn inputs(&self) -> Result<Option<String>, StateError> {
        let Some(open) = &self.current else { return Ok(None) };
        let path = self.layout.run(&open.run).join(Layout::INPUTS);
        let bytes = match self.disk.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StateError::io("read", &path)(error)),
        };
        let broken = || StateError::damaged(&path, "was changed from outside");
        let text = String::from_utf8(bytes).map_err(|_| broken())?;
        let line = text.strip_suffix('\n').ok_or_else(broken)?;
        chain::verify(&self.key, line).ok_or_else(broken)?;
        Ok(Some(line.to_owned()))
    }

    /// Keeps this JSON object, whole and safely, in place of the one before. As long as the run goes on it
    /// comes back, whatever is done to it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_inputs(&mut self, object: &str) -> Result<(), StateError> {
        let Some(open) = &mut self.current else { return Ok(()) };
        open.settle()?;
        let path = self.layout.run(&open.run).join(Layout::INPUTS);
        let (mut line, _) = chain::seal(&self.key, object);
        line.push('\n');
        self.disk.write_private(&path, line.as_bytes())?;
        open.files.retain(|file| file.path() != path);
        open.files.push(KeptFile::new(&self.disk, path, line.as_bytes())?);
        Ok(())
    }
}
