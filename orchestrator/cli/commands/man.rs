//! `man`

use crate::args::Man;
use crate::error::{CommandError, exit};
use crate::{help, output};

pub(crate) fn man(args: &Man) -> Result<u8, CommandError> {
    let folder = &args.folder;
    let failed = |error| CommandError::user(format!("cannot write {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(help::command(), folder).map_err(failed)?;
    output::result(&format!("wrote the manual pages to {}", folder.display()));
    Ok(exit::OK)
}
