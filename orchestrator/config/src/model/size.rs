//! Numbers of bytes in the tables of `ralph.toml`.

use ralph_orchestrator_contract::size;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserializer, Serializer};

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    size::serialize(*bytes, serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    size::deserialize(deserializer, "8 KiB")
}

pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "integer"], "minimum": 1, "pattern": r"^\s*\d"})
}
