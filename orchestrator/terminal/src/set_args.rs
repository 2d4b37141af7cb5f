//! Keys of the configuration on the command line of a command.

use ralph_orchestrator_assembly::overrides::Overrides;

use crate::values;

#[expect(missing_docs, reason = "it would become the summary of each command that has them")]
#[derive(Debug, Default, clap::Args)]
pub struct SetArgs {
    /// Set a key of the configuration, such as limits.max_cost_usd=5
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = values::key_value)]
    pub sets: Vec<(String, String)>,
}

impl From<&SetArgs> for Overrides {
    fn from(args: &SetArgs) -> Self {
        args.sets.clone().into()
    }
}
