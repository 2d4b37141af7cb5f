//! `completions`

use clap::CommandFactory as _;

use crate::args::{Args, Completions};
use crate::error::exit;
use crate::output;

pub(crate) fn completions(args: &Completions) -> u8 {
    let mut script = Vec::new();
    let mut command = Args::command();
    clap_complete::generate(args.shell, &mut command, "ralph-orchestrator", &mut script);
    output::raw(&script);
    exit::OK
}
