//! `[telemetry]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the trace of a run goes while it is active. `export --otlp` makes the same trace of any run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// The address of an OpenTelemetry collector that takes OTLP by HTTP, such as "http://127.0.0.1:4318". Without a
    /// path "/v1/traces" is added. The variable `OTEL_EXPORTER_OTLP_HEADERS` holds further headers. Nothing is exported
    /// by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub otlp: Option<String>,
    /// Spans contain words of agents and checks: arguments and answers of tools, why a claim was rejected.
    pub content: bool,
}
