//! Files of a run that are signed like lines of its journal.

use super::Store;
use crate::store::error::StateError;
use crate::store::guarded_file::GuardedFile;
use crate::store::signed_line;

impl Store {
    /// Reads the JSON object that the open run stores under this name; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or was changed from outside.
    pub fn read_signed_file(&self, name: &str) -> Result<Option<String>, StateError> {
        let Some(open) = &self.current else { return Ok(None) };
        let path = self.layout.run(&open.run).join(name);
        let Some(bytes) = self.disk.read_if_exists(&path, usize::MAX)? else { return Ok(None) };
        let broken = || StateError::damaged(&path, "was changed from outside");
        let text = String::from_utf8(bytes).map_err(|_| broken())?;
        let line = text.strip_suffix('\n').ok_or_else(broken)?;
        signed_line::verify(&self.key, line).ok_or_else(broken)?;
        Ok(Some(line.to_owned()))
    }

    /// Stores this JSON object durably, in place of the previous one; in a run that has no record yet, from
    /// its first barrier on. During the run it is restored if it is changed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_signed_file(&mut self, name: &str, object: &str) -> Result<(), StateError> {
        let Some(open) = &mut self.current else { return Ok(()) };
        let path = self.layout.run(&open.run).join(name);
        let (mut line, _) = signed_line::sign(&self.key, object);
        line.push('\n');
        let is_new = open.files.iter().all(|file| file.path() != path);
        match &mut open.unsynced {
            Some(unsynced) if is_new => {
                unsynced.push(self.disk.write_new(&path, line.as_bytes())?);
            }
            _ => self.disk.write_private(&path, line.as_bytes())?,
        }
        open.files.retain(|file| file.path() != path);
        open.files.push(GuardedFile::new(&self.disk, path, line.as_bytes())?);
        Ok(())
    }
}
