//! A receiver of notices on loopback, which answers as it is told.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver as Channel, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it answers to one request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Status(&'static str),
    Redirect(String),
    /// Nothing, while the connection stays open.
    Nothing,
    Close,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

pub(crate) struct Receiver {
    pub(crate) url: String,
    requests: Channel<Request>,
}

impl Receiver {
    /// One that gives these answers in turn, and the last one for ever.
    pub(crate) fn new(answers: &[Answer]) -> Self {
        Self::at(0, answers)
    }

    /// The same at a port that was free before.
    pub(crate) fn at(port: u16, answers: &[Answer]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = mpsc::channel();
        let answers = Arc::new(Mutex::new(answers.to_vec()));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, sender) = (Arc::clone(&answers), sender.clone());
                std::thread::spawn(move || serve(stream, &answers, &sender));
            }
        });
        Self { url: format!("http://127.0.0.1:{port}/hook"), requests }
    }

    pub(crate) fn next(&self) -> Request {
        self.requests.recv_timeout(PATIENCE).expect("a request")
    }

    /// All that have come and were not taken.
    pub(crate) fn left(&self) -> Vec<Request> {
        self.requests.try_iter().collect()
    }
}

/// A port of loopback on which nobody listens.
pub(crate) fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn serve(mut stream: TcpStream, answers: &Mutex<Vec<Answer>>, sender: &Sender<Request>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut line, mut headers) = (String::new(), Vec::new());
    reader.read_line(&mut line).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let path = line.split(' ').nth(1).unwrap().to_owned();
    let mut request = Request { path, headers, body: String::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    request.body = String::from_utf8(body).unwrap();
    let answer = {
        let mut answers = answers.lock().unwrap();
        if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
    };
    drop(sender.send(request));
    let text = match answer {
        Answer::Status(status) => {
            format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        Answer::Redirect(to) => {
            format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
        }
        Answer::Close => return,
        Answer::Nothing => {
            // Until the other side gives up.
            drop(stream.read(&mut [0]));
            return;
        }
    };
    drop(stream.write_all(text.as_bytes()));
}
