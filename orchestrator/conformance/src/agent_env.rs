//! The environment with which real agents use only a model on loopback.

use std::path::Path;
use std::time::Duration;

/// Longer than any test.
pub const IDLE: Duration = Duration::from_secs(600);
/// The discard port: nobody listens.
const NOWHERE: &str = "http://127.0.0.1:9";

/// No other host than this one can be reached, whatever the agent tries.
#[must_use]
pub fn no_network() -> [(&'static str, String); 3] {
    [
        ("HTTPS_PROXY", NOWHERE.to_owned()),
        ("HTTP_PROXY", NOWHERE.to_owned()),
        ("NO_PROXY", "127.0.0.1".to_owned()),
    ]
}

/// For Claude Code, with the model at this base URL; `tmp` is for its own files. It tries once more
/// what the model refuses, where by itself it would for minutes.
#[must_use]
pub fn claude_env(model: &str, tmp: &Path) -> [(&'static str, String); 9] {
    [
        ("ANTHROPIC_API_KEY", "dummy".to_owned()),
        ("ANTHROPIC_BASE_URL", model.to_owned()),
        // Without it the agent leaves files in /tmp, TMPDIR or not.
        ("CLAUDE_CODE_TMPDIR", tmp.display().to_string()),
        ("DISABLE_TELEMETRY", "1".to_owned()),
        ("DISABLE_ERROR_REPORTING", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
        ("IS_SANDBOX", "1".to_owned()),
    ]
}

/// For Codex, beside [`codex_config`].
#[must_use]
pub fn codex_env() -> [(&'static str, String); 1] {
    [("LOOP_KEY", "dummy".to_owned())]
}

/// Writes the configuration of Codex into this home folder, with the model at this base URL, which may
/// say nothing for so long.
///
/// # Panics
/// If it cannot be written.
pub fn codex_config(home: &Path, model: &str, idle: Duration) {
    let idle_ms = idle.as_millis();
    let config = format!(
        "model = \"gpt-5.1-codex\"\nmodel_provider = \"loop\"\n[analytics]\nenabled = false\n\
         [model_providers.loop]\nname = \"loop\"\nbase_url = \"{model}/v1\"\nenv_key = \"LOOP_KEY\"\n\
         wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 1\n\
         stream_idle_timeout_ms = {idle_ms}\n"
    );
    let folder = home.join(".codex");
    std::fs::create_dir_all(&folder).expect("there is room for a folder");
    std::fs::write(folder.join("config.toml"), config).expect("there is room for a file");
}
