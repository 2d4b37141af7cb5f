//! Files of a run that are signed like lines of its journal.

use data_encoding::BASE64;

use super::Store;
use crate::error::StateError;
use crate::guarded_file::GuardedFile;
use crate::signed_line;
use crate::signed_object::{SealedObject, read_signed_object};

impl Store {
    /// Reads the JSON object that the open run stores under this name; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or was changed from outside.
    pub fn read_signed_file(&self, name: &str) -> Result<Option<String>, StateError> {
        let Some(open) = &self.current else { return Ok(None) };
        read_signed_object(&self.disk, &self.key, &self.layout.run(&open.run).join(name))
    }

    /// Stores this JSON object as [`write_signed_file`](Self::write_signed_file) does, sealed: it has secrets in it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_sealed_file(&mut self, name: &str, object: &str) -> Result<(), StateError> {
        let sealed = SealedObject { sealed: BASE64.encode(&self.key.seal(object.as_bytes())?) };
        let object = serde_json::to_string(&sealed).map_err(|error| {
            StateError::damaged(&self.layout.root().join(name), error.to_string())
        })?;
        self.write_signed_file(name, &object)
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
