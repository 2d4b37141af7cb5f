//! Libraries: what their files may be, how they are copied and loaded.

mod bad_content;
mod bad_files;
mod c;
mod copies;
mod mutants;
