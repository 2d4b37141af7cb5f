//! The readers of all runners, one a file, each with the words that it reads; a row in `summary_line.rs` for
//! those with a single line.

mod bun;
mod cargo_test;
mod ctest;
mod go;
mod gradle;
mod headings;
mod jest;
mod junit;
mod mocha;
mod nextest;
mod node;
mod pytest;
mod reader;
mod summary_line;
mod tap;
mod unittest;
mod vitest;

use reader::RunnerReader;

/// One reader for each runner.
pub(crate) type Readers = Vec<Box<dyn RunnerReader>>;

/// Makes a reader for each runner that is known.
pub(crate) fn all_readers() -> Readers {
    let mut readers: Readers = vec![
        Box::<pytest::Pytest>::default(),
        Box::<unittest::Unittest>::default(),
        Box::<nextest::Nextest>::default(),
        Box::<cargo_test::CargoTest>::default(),
        Box::<tap::Tap>::default(),
        Box::<node::NodeSpec>::default(),
        Box::<jest::Jest>::default(),
        Box::<vitest::Vitest>::default(),
        Box::<mocha::Mocha>::default(),
        Box::<junit::JUnit>::default(),
        Box::<go::GoTest>::default(),
        Box::<ctest::CTest>::default(),
        Box::<gradle::Gradle>::default(),
        Box::<bun::Bun>::default(),
    ];
    readers.extend(summary_line::summary_lines());
    readers
}
