//! A format of backlogs that is compiled in: its panics are its own.

use ralph_orchestrator_contract::{
    BacklogEdit, BacklogFormat, BacklogItem, BuildError, FormatDescription, FormatError,
};

use crate::panics::{build_guarded, catch_panic};

/// Reports a panic as a failure of the format: nothing is read or written then.
pub(crate) struct CompiledFormat {
    name: String,
    format: Box<dyn BacklogFormat>,
    description: FormatDescription,
}

impl CompiledFormat {
    /// Builds the format of this name.
    ///
    /// # Errors
    /// It panics.
    pub(crate) fn build(
        name: &str,
        build: impl FnOnce() -> Box<dyn BacklogFormat>,
    ) -> Result<Self, BuildError> {
        let build = || {
            let format = build();
            let description = format.describe();
            Ok((format, description))
        };
        let (format, description) = build_guarded(build, |panic| panicked(name, panic))?;
        Ok(Self { name: name.to_owned(), format, description })
    }

    fn ask<T>(
        &self,
        method: impl FnOnce(&dyn BacklogFormat) -> Result<T, FormatError>,
    ) -> Result<T, FormatError> {
        let asked = catch_panic(|| method(&*self.format));
        asked.map_err(|panic| FormatError::Failed(panicked(&self.name, &panic))).flatten()
    }
}

impl BacklogFormat for CompiledFormat {
    fn describe(&self) -> FormatDescription {
        self.description.clone()
    }

    fn read(&self, text: &str) -> Result<Vec<BacklogItem>, FormatError> {
        self.ask(|format| format.read(text))
    }

    fn edit(&self, text: &str, edits: &[BacklogEdit]) -> Result<String, FormatError> {
        self.ask(|format| format.edit(text, edits))
    }
}

fn panicked(name: &str, panic: &str) -> String {
    format!("the format of backlogs `{name}` panicked: {panic}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics in the method of this name.
    struct Panics(&'static str);

    impl BacklogFormat for Panics {
        fn describe(&self) -> FormatDescription {
            assert_ne!(self.0, "describe", "cause");
            FormatDescription::default()
        }

        fn read(&self, _: &str) -> Result<Vec<BacklogItem>, FormatError> {
            assert_ne!(self.0, "read", "cause");
            Ok(Vec::new())
        }

        fn edit(&self, text: &str, _: &[BacklogEdit]) -> Result<String, FormatError> {
            assert_ne!(self.0, "edit", "cause");
            Ok(text.to_owned())
        }
    }

    #[test]
    fn a_panic_anywhere_is_reported_with_text_place_and_format() {
        let build = |how| CompiledFormat::build("toy", || Box::new(Panics(how)));
        let described = build("describe").err().unwrap().message;
        let read = build("read").unwrap().read("").unwrap_err().to_string();
        let edited = build("edit").unwrap().edit("", &[]).unwrap_err().to_string();
        for message in [described, read, edited] {
            let parts = ["the format of backlogs `toy` panicked: ", "cause", "compiled_format.rs:"];
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
    }
}
