//! The requests that are answered.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::access::{Access, AccessError, Admission, bearer};
use crate::answers::{Answer, Answers};
use crate::events;
use crate::page::Page;
use crate::source::{Connection, IterationPart, RunSource, SourceError, StartAt};

/// The largest body of a request, in bytes.
const LARGEST_BODY: usize = 64 * 1024;
/// Characters of the longest key that names a control.
const LONGEST_KEY: usize = 128;
/// How long a client may take to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the next secret is not looked at after a wrong one: nobody guesses many.
const WRONG_SECRET: Duration = Duration::from_secs(1);
/// The most records that a client can ask to begin with.
const MOST_LAST: usize = 100_000;

const LAST_EVENT_ID: &str = "last-event-id";
const IDEMPOTENCY_KEY: &str = "idempotency-key";

struct Server {
    access: Access,
    allows_control: bool,
    source: Arc<dyn RunSource>,
    page: Page,
    answers: Answers,
    /// Held while a passphrase is compared, and for a while after a wrong one.
    guesses: Arc<Mutex<()>>,
}

type Shared = State<Arc<Server>>;

pub(crate) fn router(access: Access, allows_control: bool, source: Arc<dyn RunSource>) -> Router {
    let (page, answers, guesses) = (Page::new(), Answers::default(), Arc::default());
    let server = Arc::new(Server { access, allows_control, source, page, answers, guesses });
    let private = Router::new()
        .route("/api/runs", get(list))
        .route("/api/runs/{run}", get(show))
        .route("/api/runs/{run}/events", get(follow))
        .route("/api/runs/{run}/iterations", get(iterations))
        .route("/api/runs/{run}/iterations/{number}/{part}", get(iteration))
        .route("/api/runs/{run}/{control}", post(control))
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(server.clone(), require_session));
    Router::new()
        .route("/", get(page_of))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/api/session", post(open_session))
        .merge(private)
        .fallback(|| async { error(&SourceError::NotFound("there is no such page".to_owned())) })
        .layer(middleware::from_fn(read_body))
        .layer(middleware::from_fn_with_state(server.clone(), check_source))
        .with_state(server)
}

/// Refuses what is not meant for this server, and sets the headers that every answer has.
async fn check_source(State(server): Shared, request: Request, next: Next) -> Response {
    let checked = server.access.check_source(request.method(), request.headers());
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => message(StatusCode::FORBIDDEN, "error", refusal.message()),
    };
    let headers = response.headers_mut();
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    if let Ok(policy) = HeaderValue::from_str(&server.page.policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Reads the body of a request whole: a client that sends none of what it has promised is not waited for.
async fn read_body(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, LARGEST_BODY)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(_)) => {
            let text = format!("the body is longer than {LARGEST_BODY} bytes, or incomplete");
            message(StatusCode::PAYLOAD_TOO_LARGE, "error", &text)
        }
        Err(_) => {
            let text = "the body of the request did not arrive in time";
            message(StatusCode::REQUEST_TIMEOUT, "error", text)
        }
    }
}

/// Who sends a request to the private part of the interface.
#[derive(Clone, Copy)]
enum Sender {
    /// A program that knows the passphrase, or a page with the key of its session.
    Trusted,
    /// Whoever has the cookie.
    Cookie,
}

async fn require_session(State(server): Shared, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let sender = match bearer(headers).map(str::to_owned) {
        Some(secret) => {
            let compare = || server.access.is_passphrase(&secret).then_some(Sender::Trusted);
            guarded(&server, compare).await
        }
        None if server.access.has_key(headers) => Some(Sender::Trusted),
        None => server.access.has_session(headers).then_some(Sender::Cookie),
    };
    let Some(sender) = sender else {
        let text = "not logged in: open the address that `serve` printed";
        return message(StatusCode::UNAUTHORIZED, "error", text);
    };
    request.extensions_mut().insert(sender);
    next.run(request).await
}

/// Compares secrets one after the other, with a pause after each wrong one, even if its sender does not wait for it.
async fn guarded<T>(server: &Server, compare: impl FnOnce() -> Option<T>) -> Option<T> {
    let guard = server.guesses.clone().lock_owned().await;
    let found = compare();
    if found.is_none() {
        let pause = tokio::spawn(async move {
            tokio::time::sleep(WRONG_SECRET).await;
            drop(guard);
        });
        drop(pause.await);
    }
    found
}

async fn page_of(State(server): Shared) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (kind, server.page.html.clone()).into_response()
}

#[derive(Deserialize)]
struct Login {
    token: String,
}

async fn open_session(State(server): Shared, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refusal) = refuse_unless_json(&headers) {
        return refusal;
    }
    let Ok(login) = serde_json::from_slice::<Login>(&body) else {
        return error(&SourceError::Invalid("expected {\"token\": \"…\"}".to_owned()));
    };
    match let_in(&server, &login.token).await {
        Ok(Some(Admission { cookie, key })) => {
            let body = json!({ "control": server.allows_control, "key": key });
            ([(header::SET_COOKIE, cookie)], json_body(StatusCode::OK, &body)).into_response()
        }
        Ok(None) => message(
            StatusCode::UNAUTHORIZED,
            "error",
            "that is not the token of this server; each lets one browser in, then `serve` prints another",
        ),
        Err(problem) => error(&SourceError::Failed(problem.to_string())),
    }
}

/// Nobody guesses a token, so who has one does not wait for those who guess passphrases.
async fn let_in(server: &Server, secret: &str) -> Result<Option<Admission>, AccessError> {
    if let Some(admission) = server.access.let_in_by_token(secret)? {
        return Ok(Some(admission));
    }
    let compare = || server.access.let_in_by_passphrase(secret).transpose();
    guarded(server, compare).await.transpose()
}

async fn list(State(server): Shared) -> Response {
    answer(server, |server| {
        Ok(json!({ "control": server.allows_control, "runs": server.source.list()? }))
    })
    .await
}

async fn show(State(server): Shared, Path(run): Path<String>) -> Response {
    answer(server, move |server| server.source.show(&run)).await
}

#[derive(Deserialize)]
struct IterationsQuery {
    before: Option<u64>,
}

async fn iterations(
    State(server): Shared,
    Path(run): Path<String>,
    Query(query): Query<IterationsQuery>,
) -> Response {
    answer(server, move |server| server.source.iterations(&run, query.before)).await
}

#[derive(Deserialize)]
struct EventsQuery {
    after: Option<u64>,
    last: Option<usize>,
}

async fn follow(
    State(server): Shared,
    Path(run): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Response {
    let seen = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse().ok());
    let start = match (seen, query.after, query.last) {
        (Some(seen), ..) | (None, Some(seen), _) => StartAt::After(seen),
        (None, None, Some(last)) => StartAt::Last(last.min(MOST_LAST)),
        (None, None, None) => StartAt::After(0),
    };
    match blocking(move || server.source.follow(&run, start)).await {
        Ok(records) => events::respond(records).unwrap_or_else(|problem| error(&problem)),
        Err(problem) => error(&problem),
    }
}

async fn iteration(
    State(server): Shared,
    Path((run, number, part)): Path<(String, u64, String)>,
) -> Response {
    let part = match part.as_str() {
        "transcript" => IterationPart::Transcript,
        "diff" => IterationPart::Diff,
        "evidence" => IterationPart::Evidence,
        _ => return error(&SourceError::NotFound(format!("an iteration has no `{part}`"))),
    };
    answer(server, move |server| server.source.iteration(&run, number, part)).await
}

async fn metrics(State(server): Shared) -> Response {
    match blocking(move || server.source.metrics()).await {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(problem) => error(&problem),
    }
}

async fn control(
    State(server): Shared,
    Extension(sender): Extension<Sender>,
    Extension(connection): Extension<Connection>,
    Path((run, control)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !server.allows_control {
        let text = "this server only shows runs: `serve --control` allows controls";
        return message(StatusCode::FORBIDDEN, "error", text);
    }
    if matches!(sender, Sender::Cookie) {
        let text = "the header X-Ralph-Key is missing, or another session's: log in again";
        return message(StatusCode::UNAUTHORIZED, "error", text);
    }
    if let Some(refusal) = refuse_unless_json(&headers) {
        return refusal;
    }
    let key = headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
    let Some(key) = key.filter(|key| !key.is_empty() && key.len() <= LONGEST_KEY) else {
        let text = "the header Idempotency-Key is missing: a key of your own, 128 characters at most, \
                    which is the same when the request is sent again";
        return error(&SourceError::Invalid(text.to_owned()));
    };
    let Ok(arguments) = serde_json::from_slice::<Value>(&body) else {
        return error(&SourceError::Invalid("the body is no JSON".to_owned()));
    };
    let key = key.to_owned();
    let sent = move || send_control(&server, &run, (&control, &arguments), &key, connection);
    match blocking(sent).await {
        Ok(text) => message(StatusCode::OK, "message", &text),
        Err(problem) => error(&problem),
    }
}

/// Has a control take effect once for its key. One that had none may have it when it is sent again.
fn send_control(
    server: &Server,
    run: &str,
    (control, arguments): (&str, &Value),
    key: &str,
    connection: Connection,
) -> Result<String, SourceError> {
    let request = format!("{control} {arguments}");
    let place = server.answers.place(run, key);
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    match place.as_ref() {
        Some(answer) if answer.request == request => Ok(answer.text.clone()),
        Some(_) => {
            let text = "this Idempotency-Key was used for another control: take a new one";
            Err(SourceError::Refused(text.to_owned()))
        }
        None => {
            let text = server.source.control(run, control, arguments, key, connection)?;
            *place = Some(Answer { request, text: text.clone() });
            Ok(text)
        }
    }
}

const JSON: &str = "application/json";

/// Another site can have a browser send text and forms without asking, but no JSON.
fn refuse_unless_json(headers: &HeaderMap) -> Option<Response> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    (!kind.is_some_and(|kind| kind.eq_ignore_ascii_case(JSON))).then(|| {
        let text = "expected the header Content-Type: application/json";
        message(StatusCode::UNSUPPORTED_MEDIA_TYPE, "error", text)
    })
}

/// Runs what blocks apart from the connections, and answers with its object.
async fn answer(
    server: Arc<Server>,
    work: impl FnOnce(&Server) -> Result<Value, SourceError> + Send + 'static,
) -> Response {
    match blocking(move || work(&server)).await {
        Ok(object) => json_body(StatusCode::OK, &object),
        Err(problem) => error(&problem),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|problem| Err(SourceError::Failed(problem.to_string())))
}

pub(crate) fn error(problem: &SourceError) -> Response {
    message(status(problem), "error", &problem.to_string())
}

const fn status(problem: &SourceError) -> StatusCode {
    match problem {
        SourceError::NotFound(_) => StatusCode::NOT_FOUND,
        SourceError::Invalid(_) => StatusCode::BAD_REQUEST,
        SourceError::Refused(_) => StatusCode::CONFLICT,
        SourceError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn message(status: StatusCode, name: &str, text: &str) -> Response {
    json_body(status, &json!({ name: text }))
}

fn json_body(status: StatusCode, object: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, JSON)], object.to_string()).into_response()
}
