//! Just enough of HTTP/1.1.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _, Write};

use serde_json::Value;

/// Longest accepted request body.
const MAX_BODY: u64 = 64 * 1024 * 1024;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// `POST` and so on.
    pub method: String,
    /// The path, with its query.
    pub target: String,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body as JSON; null if it is none.
    pub body: Value,
}

impl Request {
    /// The path from `/v1/` on, without its query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.split().1
    }

    /// The client's name, if its base URL is one of
    /// [`ModelServer::base_url_for`](super::ModelServer::base_url_for); else nothing.
    #[must_use]
    pub fn client(&self) -> &str {
        self.split().0.trim_matches('/')
    }

    fn split(&self) -> (&str, &str) {
        let path = self.target.split('?').next().unwrap_or_default();
        path.find("/v1/").and_then(|at| path.split_at_checked(at)).unwrap_or(("", path))
    }

    /// Whether it offers the model a tool of this name.
    #[must_use]
    pub fn offers(&self, tool: &str) -> bool {
        self.tool(tool).is_some()
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Value> {
        let tools = self.body.get("tools")?.as_array()?;
        // The chat API has a tool's name one level deeper.
        let name_of =
            |tool: &Value| tool.get("name").or_else(|| tool.pointer("/function/name")).cloned();
        tools.iter().find(|tool| name_of(tool).is_some_and(|found| found == name))
    }

    /// Returns the name under which it offers one of the orchestrator's own tools: agents put the name of its
    /// server before it.
    #[must_use]
    pub fn offered_as(&self, own: &str) -> Option<String> {
        let tools = self.body.get("tools")?.as_array()?;
        let inner = |tool: &Value| tool.get("tools").and_then(Value::as_array).cloned();
        let tools = tools.iter().flat_map(|tool| inner(tool).unwrap_or_else(|| vec![tool.clone()]));
        let names = tools.filter_map(|tool| {
            let name = tool.get("name").or_else(|| tool.pointer("/function/name"))?;
            name.as_str().map(str::to_owned)
        });
        let is_own = |name: &String| {
            let rest = name.strip_suffix(own);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '.', '-', '/']))
        };
        names.into_iter().find(is_own)
    }

    /// Returns the group of tools that a tool is in, if it is in one: Codex groups those of a server.
    pub(super) fn namespace_of(&self, name: &str) -> Option<&str> {
        let tools = self.body.get("tools")?.as_array()?;
        let has = |group: &&Value| {
            let inner = group.get("tools").and_then(Value::as_array);
            inner.is_some_and(|inner| {
                inner.iter().any(|tool| tool.get("name") == Some(&name.into()))
            })
        };
        tools.iter().find(has)?.get("name")?.as_str()
    }

    /// The answer shall be a stream of events.
    #[must_use]
    pub fn wants_stream(&self) -> bool {
        self.body.get("stream").and_then(Value::as_bool).unwrap_or(false)
    }

    /// The model that is asked for.
    #[must_use]
    pub fn model(&self) -> &str {
        self.body.get("model").and_then(Value::as_str).unwrap_or_default()
    }

    /// Reads the next request; nothing if the connection ended.
    pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(first) = line(reader)? else { return Ok(None) };
        let mut words = first.split(' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (method, target) = (word(), word());
        let mut headers = BTreeMap::new();
        while let Some(header) = line(reader)?.filter(|header| !header.is_empty()) {
            if let Some((name, value)) = header.split_once(':') {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
        }
        let body = body(reader, &headers)?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Some(Self { method, target, headers, body }))
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = reader.read_line(&mut line)?;
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok((read > 0).then_some(line))
}

fn body(reader: &mut impl BufRead, headers: &BTreeMap<String, String>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let mut take = |reader: &mut dyn BufRead, length: u64| -> io::Result<()> {
        if body.len() as u64 + length > MAX_BODY {
            return Err(io::Error::other("the request is too long"));
        }
        reader.take(length).read_to_end(&mut body).map(|_| ())
    };
    if headers.get("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
        loop {
            let size = line(reader)?.unwrap_or_default();
            let size = size.split(';').next().unwrap_or_default();
            let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            take(reader, size)?;
            line(reader)?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = headers.get("content-length") {
        take(reader, length.parse().map_err(io::Error::other)?)?;
    }
    Ok(body)
}

/// Writes a whole answer with a JSON body.
pub(super) fn respond(
    writer: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    body: &Value,
) -> io::Result<()> {
    let body = body.to_string();
    let mut head = head(status, headers);
    head.push_str(&format!(
        "content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ));
    writer.write_all(head.as_bytes())?;
    writer.write_all(body.as_bytes())?;
    writer.flush()
}

/// Writes an answer without a body.
pub(super) fn respond_empty(writer: &mut impl Write, status: u16) -> io::Result<()> {
    writer.write_all((head(status, &[]) + "content-length: 0\r\n\r\n").as_bytes())?;
    writer.flush()
}

/// Begins an answer in chunks.
pub(super) fn begin_stream(
    writer: &mut impl Write,
    headers: &[(String, String)],
) -> io::Result<()> {
    let head = head(200, headers)
        + "content-type: text/event-stream\r\ncache-control: no-cache\r\n\
           transfer-encoding: chunked\r\n\r\n";
    writer.write_all(head.as_bytes())?;
    writer.flush()
}

/// Writes a chunk; an empty one ends the answer.
pub(super) fn chunk(writer: &mut impl Write, data: &str) -> io::Result<()> {
    write!(writer, "{:x}\r\n{data}\r\n", data.len())?;
    writer.flush()
}

fn head(status: u16, headers: &[(String, String)]) -> String {
    let mut head = format!("HTTP/1.1 {status} .\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}
