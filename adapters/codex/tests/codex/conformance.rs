//! What has to hold for every adapter.

use ralph_adapter_codex::build;
use ralph_orchestrator_testkit::conformance::{self, Cast, Options};
use ralph_orchestrator_testkit::{codex_binary, shim};
use serde_json::json;

#[test]
fn it_holds() {
    // Codex refuses more than 1 MiB of input.
    let options = Options::default().prompt_max(1024 * 1024 - 1024);
    let report = conformance::run(&options, |stage| {
        let provider = format!(
            "model_providers.loop={{name=\"loop\",base_url=\"{}/v1\",env_key=\"CODEX_API_KEY\",\
             wire_api=\"responses\",request_max_retries=0,stream_max_retries=1,\
             stream_idle_timeout_ms=600000}}",
            stage.model()
        );
        let config = json!({"program": codex_binary(), "model": "gpt-5.1-codex",
            "args": ["-c", "model_provider=loop", "-c", "analytics.enabled=false", "-c", provider]});
        let agent = build(config, &stage.context, &shim::supervisor()).unwrap();
        Cast::boxed(agent).env("CODEX_API_KEY", "dummy")
    });
    report.assert();
}
