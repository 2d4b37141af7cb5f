//! The tables that describe an environment.

use toml::Spanned;
use toml::de::DeValue;

use super::super::settings::{
    DEFAULT_BUILD_TIMEOUT, EnvironmentSettings, Healthcheck, McpServer, McpTransport,
    NetworkPolicy, OperatingSystem, Tpu,
};
use super::super::toml_table::{TableReader, TomlText, as_string};
use super::network::take_network;

/// An environment table, with what it leaves to others.
pub(super) struct EnvironmentTable {
    pub(super) settings: EnvironmentSettings,
    /// The table names the operating system.
    pub(super) names_os: bool,
}

/// Reads `[environment]`, or the environment of a verifier.
pub(super) fn take_environment(
    text: &mut TomlText<'_>,
    mut table: TableReader<'_>,
) -> EnvironmentTable {
    let os = take_os(text, &mut table);
    let tpu = table.take_table(text, "tpu").and_then(|tpu| take_tpu(text, tpu));
    let network = take_policy(text, &mut table);
    let settings = EnvironmentSettings {
        build_timeout: table
            .take_seconds(text, "build_timeout_sec", false)
            .unwrap_or(DEFAULT_BUILD_TIMEOUT),
        docker_image: table
            .take_plain_string(text, "docker_image")
            .filter(|image| !image.is_empty()),
        os: os.unwrap_or_default(),
        cpus: take_cpus(text, &mut table),
        memory_mb: take_size(text, &mut table, "memory_mb", "memory"),
        storage_mb: take_size(text, &mut table, "storage_mb", "storage"),
        gpus: table.take_count(text, "gpus").unwrap_or(0),
        gpu_types: table.take_plain_strings(text, "gpu_types"),
        tpu,
        workdir: take_workdir(text, &mut table),
        env: table.take_string_map(text, "env"),
        skills_dir: table.take_plain_string(text, "skills_dir"),
        network,
        mcp_servers: table
            .take_tables(text, "mcp_servers")
            .into_iter()
            .filter_map(|server| take_mcp_server(text, server))
            .collect(),
        healthcheck: table
            .take_table(text, "healthcheck")
            .and_then(|check| take_healthcheck(text, check)),
    };
    table.finish(text);
    EnvironmentTable { settings, names_os: os.is_some() }
}

/// Reads the network policy; the deprecated `allow_internet` counts where nothing newer is said.
fn take_policy(text: &mut TomlText<'_>, table: &mut TableReader<'_>) -> NetworkPolicy {
    let policy = take_network(text, table);
    let allow_internet = table.take_boolean(text, "allow_internet");
    policy.unwrap_or(match allow_internet {
        Some(false) => NetworkPolicy::NoNetwork,
        Some(true) | None => NetworkPolicy::Public,
    })
}

fn take_os(text: &mut TomlText<'_>, table: &mut TableReader<'_>) -> Option<OperatingSystem> {
    let value = table.take_string(text, "os")?;
    match value.get_ref().to_lowercase().as_str() {
        "linux" => Some(OperatingSystem::Linux),
        "windows" => Some(OperatingSystem::Windows),
        other => {
            let name = table.name("os");
            let message = format!("`{name}` is \"{other}\", expected \"linux\" or \"windows\"");
            text.error(&value.span(), message);
            None
        }
    }
}

fn take_cpus(text: &mut TomlText<'_>, table: &mut TableReader<'_>) -> Option<f64> {
    let cpus = table.take_number(text, "cpus")?;
    if *cpus.get_ref() > 0.0 {
        return Some(cpus.into_inner());
    }
    let name = table.name("cpus");
    text.error(&cpus.span(), format!("`{name}` is {}, expected more than 0", cpus.get_ref()));
    None
}

/// Reads a size in MiB, or its deprecated form such as "2G".
fn take_size(
    text: &mut TomlText<'_>,
    table: &mut TableReader<'_>,
    key: &str,
    deprecated: &str,
) -> Option<u64> {
    let size = table.take_count(text, key);
    let Some(value) = table.take(deprecated) else { return size };
    let Some(written) = as_string(&value) else { return size };
    let Some(old_size) = parse_size(written.get_ref()) else {
        let name = table.name(deprecated);
        let message = format!(
            "`{name}` is \"{}\", expected a size such as \"2G\" or \"512M\"; write `{key}` instead",
            written.get_ref()
        );
        text.error(&written.span(), message);
        return size;
    };
    if size.is_some_and(|size| size != old_size) {
        let message =
            format!("`{deprecated}` and `{key}` contradict each other: remove `{deprecated}`");
        text.error(&written.span(), message);
    }
    size.or(Some(old_size))
}

/// Returns the MiB of a size such as "2G", "1.5G", "512M" or "2048K".
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim().to_uppercase();
    let unit = text.chars().next_back()?;
    let factor = match unit {
        'G' => 1024.0,
        'M' => 1.0,
        'K' => 1.0 / 1024.0,
        _ => return None,
    };
    let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
    let mb = (number * factor).floor();
    (0.0..9e15).contains(&mb).then(|| format!("{mb:.0}").parse().ok())?
}

fn take_workdir(text: &mut TomlText<'_>, table: &mut TableReader<'_>) -> Option<String> {
    let workdir = table.take_string(text, "workdir")?;
    let path = workdir.get_ref();
    if path.starts_with('/') && !path.split('/').any(|part| part == "..") {
        return Some(workdir.into_inner());
    }
    let name = table.name("workdir");
    text.error(
        &workdir.span(),
        format!("`{name}` is \"{path}\", expected an absolute path without `..`"),
    );
    None
}

fn take_tpu(text: &mut TomlText<'_>, mut table: TableReader<'_>) -> Option<Tpu> {
    let kind = table.take_plain_string(text, "type");
    let topology = table.take_plain_string(text, "topology");
    let span = table.span();
    table.finish(text);
    let is_topology = |topology: &String| {
        let axes: Vec<&str> = topology.trim().split('x').collect();
        axes.len() > 1 && axes.iter().all(|axis| axis.parse::<u32>().is_ok_and(|axis| axis > 0))
    };
    match (kind.filter(|kind| !kind.is_empty()), topology.filter(is_topology)) {
        (Some(kind), Some(topology)) => Some(Tpu { kind, topology: topology.trim().to_owned() }),
        _ => {
            text.error(&span, "a TPU needs a `type` and a `topology` such as \"2x4\"");
            None
        }
    }
}

/// Reads a table with a health check.
pub(super) fn take_healthcheck(
    text: &mut TomlText<'_>,
    mut table: TableReader<'_>,
) -> Option<Healthcheck> {
    let seconds = std::time::Duration::from_secs;
    let command = require_string(text, &mut table, "command");
    let check = Healthcheck {
        interval: table.take_seconds(text, "interval_sec", true).unwrap_or(seconds(5)),
        timeout: table.take_seconds(text, "timeout_sec", false).unwrap_or(seconds(30)),
        start_period: table.take_seconds(text, "start_period_sec", true).unwrap_or_default(),
        start_interval: table.take_seconds(text, "start_interval_sec", true).unwrap_or(seconds(5)),
        retries: table.take_count(text, "retries").unwrap_or(3),
        command: command.unwrap_or_default(),
    };
    table.finish(text);
    (!check.command.is_empty()).then_some(check)
}

/// Takes a string that has to be there and not empty.
pub(super) fn require_string(
    text: &mut TomlText<'_>,
    table: &mut TableReader<'_>,
    key: &str,
) -> Option<String> {
    let span = table.span();
    let name = table.name(key);
    let value = table.take(key);
    let string = value.as_ref().and_then(as_string).map(Spanned::into_inner);
    let string = string.filter(|string| !string.trim().is_empty());
    if string.is_none() {
        let span = value.as_ref().map_or(span, Spanned::span);
        text.error(&span, format!("`{name}` is missing, empty or no string: give it a text"));
    }
    string
}

fn take_mcp_server(text: &mut TomlText<'_>, mut table: TableReader<'_>) -> Option<McpServer> {
    let name = require_string(text, &mut table, "name");
    let words = [
        ("stdio", McpTransport::Stdio),
        ("sse", McpTransport::Sse),
        ("streamable-http", McpTransport::StreamableHttp),
        ("http", McpTransport::StreamableHttp),
    ];
    let server = McpServer {
        name: name?,
        transport: table.take_word(text, "transport", &words).unwrap_or_default(),
        url: table.take_plain_string(text, "url"),
        command: table.take_plain_string(text, "command"),
        args: table.take_plain_strings(text, "args"),
        headers: table.take_string_map(text, "headers"),
    };
    let span = table.span();
    let is_stdio = server.transport == McpTransport::Stdio;
    if is_stdio && server.command.is_none() {
        text.error(&span, "an MCP server with the transport \"stdio\" needs a `command`");
    }
    if !is_stdio && server.url.is_none() {
        text.error(&span, "an MCP server with this transport needs a `url`");
    }
    if is_stdio && !server.headers.is_empty() {
        text.error(&span, "`headers` are for MCP servers by HTTP; the transport is \"stdio\"");
    }
    table.finish(text);
    Some(server)
}

/// Returns a user written as a name or a number.
pub(super) fn take_user(
    text: &mut TomlText<'_>,
    table: &mut TableReader<'_>,
) -> Option<super::super::settings::User> {
    use super::super::settings::User;
    let value = table.take("user")?;
    let user = match value.get_ref() {
        DeValue::String(name) if !name.is_empty() => Some(User::Name(name.to_string())),
        DeValue::Integer(id) => u64::from_str_radix(id.as_str(), id.radix()).ok().map(User::Id),
        _ => None,
    };
    if user.is_none() {
        let name = table.name("user");
        text.error(&value.span(), format!("`{name}` is neither the name nor the number of a user"));
    }
    user
}
