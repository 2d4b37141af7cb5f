//! A collector, and what is sent to it.

use std::time::Duration;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_notices::{Retries, Retry, SendError, SupervisedTransport};
use ralph_orchestrator_supervisor::KillSwitch;
use ralph_orchestrator_telemetry::{RequestSize, Trace};
use ralph_orchestrator_terminal::output;
use tokio::sync::watch;

use crate::notices::transport::make_transport;

/// How long a collector may take to answer a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Where collectors take traces in, if the URL names no path.
const TRACES: &str = "/v1/traces";
/// The variable with headers, as the OpenTelemetry project has it: `name=value`, separated by commas.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Takes traces by HTTP.
pub(crate) struct Collector {
    pub(crate) url: String,
    headers: Vec<(String, String)>,
    transport: SupervisedTransport,
}

/// What became of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    /// The collector has them, or would refuse them again.
    Taken,
    /// The run has ended before the collector took them.
    NotYet,
}

impl Collector {
    pub(crate) fn new(context: &Context, address: &str, switch: &KillSwitch) -> Self {
        let headers = context.vars.get(HEADERS).map(String::as_str).unwrap_or_default();
        Self {
            url: complete(address),
            headers: parse_headers(headers),
            transport: make_transport(context, switch),
        }
    }

    /// Sends a trace once.
    ///
    /// # Errors
    /// A request was not answered with success.
    pub(crate) async fn send(&self, trace: &Trace) -> Result<(), SendError> {
        for request in trace.requests(env!("CARGO_PKG_VERSION"), RequestSize::COLLECTOR) {
            let headers = self.headers.clone();
            self.transport.post_json(&self.url, headers, request.to_string(), TIMEOUT).await?;
        }
        Ok(())
    }

    /// Sends spans until the collector has taken them.
    pub(super) async fn deliver(
        &self,
        trace: &Trace,
        closing: &mut watch::Receiver<bool>,
    ) -> Delivered {
        let mut retries = Retries::default();
        loop {
            retries.begin(closing);
            let SendError { message, is_refusal } = match self.send(trace).await {
                Ok(()) => {
                    if retries.failures() > 0 {
                        output::info("telemetry: the collector takes spans again");
                    }
                    return Delivered::Taken;
                }
                Err(error) => error,
            };
            let retry = retries.fail(is_refusal);
            if retry == Retry::Never {
                let url = &self.url;
                output::info(&format!(
                    "telemetry: {url}: {message}; these spans are not sent again"
                ));
                return Delivered::Taken;
            }
            if retries.failures() == 1 {
                let url = &self.url;
                output::info(&format!(
                    "telemetry: {url}: {message}; the spans are sent again later"
                ));
            }
            if retry == Retry::Later {
                return Delivered::NotYet;
            }
            retries.wait(closing).await;
        }
    }
}

/// Adds the usual path to an address without one.
fn complete(address: &str) -> String {
    let authority = address.split_once("://").map_or("", |(_, rest)| rest).trim_end_matches('/');
    match authority.contains('/') {
        true => address.to_owned(),
        false => format!("{}{TRACES}", address.trim_end_matches('/')),
    }
}

/// Returns the headers of the variable. A value may be percent-encoded; one that would be more than a line is left out.
fn parse_headers(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let decoded = pairs.map(|(name, value)| {
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8_lossy();
        (name.trim().to_owned(), value.into_owned())
    });
    let is_line = |text: &str| !text.chars().any(char::is_control);
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    decoded.filter(|(name, value)| is_name(name) && is_line(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_gets_the_usual_one() {
        for (address, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://host/otlp/v1/traces", "https://host/otlp/v1/traces"),
        ] {
            assert_eq!(complete(address), url);
        }
    }

    #[test]
    fn headers_are_those_of_the_variable() {
        let parsed = parse_headers("Authorization=Basic%20YTpi, x-scope = dev,no value,=x,a b=c");
        let expected = [("Authorization", "Basic YTpi"), ("x-scope", "dev")];
        assert_eq!(parsed, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(parse_headers("x=a%0d%0ab").len(), 0, "a value would be a header of its own");
        assert_eq!(parse_headers("").len(), 0);
    }
}
