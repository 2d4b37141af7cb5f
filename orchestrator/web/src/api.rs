//! The requests that are answered.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::access::Access;
use crate::answers::Answers;
use crate::events;
use crate::page::Page;
use crate::source::{IterationPart, RunSource, SourceError, StartAt};

/// The largest body of a request, in bytes.
const LARGEST_BODY: usize = 64 * 1024;
/// Characters of the longest key that names a control.
const LONGEST_KEY: usize = 128;
/// How long a wrong secret has to wait for its answer: nobody guesses many.
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
    /// Held while a wrong secret waits.
    guesses: Mutex<()>,
}

type Shared = State<Arc<Server>>;

pub(crate) fn router(access: Access, allows_control: bool, source: Arc<dyn RunSource>) -> Router {
    let (page, answers, guesses) = (Page::new(), Answers::default(), Mutex::default());
    let server = Arc::new(Server { access, allows_control, source, page, answers, guesses });
    let private = Router::new()
        .route("/api/runs", get(list))
        .route("/api/runs/{run}", get(show))
        .route("/api/runs/{run}/events", get(follow))
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
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
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

async fn require_session(State(server): Shared, request: Request, next: Next) -> Response {
    if server.access.is_let_in(request.headers()) {
        return next.run(request).await;
    }
    let text = "not logged in: open the address that `serve` printed";
    message(StatusCode::UNAUTHORIZED, "error", text)
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
    match server.access.let_in(&login.token) {
        Ok(Some(cookie)) => {
            let controls = json!({ "control": server.allows_control });
            ([(header::SET_COOKIE, cookie)], json_body(StatusCode::OK, &controls)).into_response()
        }
        Ok(None) => {
            let _one_at_a_time = server.guesses.lock().await;
            tokio::time::sleep(WRONG_SECRET).await;
            message(
                StatusCode::UNAUTHORIZED,
                "error",
                "that is not the token of this server; each lets one browser in, then `serve` prints another",
            )
        }
        Err(problem) => error(&SourceError::Failed(problem.to_string())),
    }
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
        Ok(records) => events::respond(records),
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
    Path((run, control)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !server.allows_control {
        let text = "this server only shows runs: `serve --control` allows controls";
        return message(StatusCode::FORBIDDEN, "error", text);
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
    let answered = blocking(move || {
        let place = server.answers.place(&run, &key);
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = place.as_ref() {
            return Ok(answer.clone());
        }
        let answer = match server.source.control(&run, &control, &arguments, &key) {
            Ok(text) => (StatusCode::OK.as_u16(), json!({ "message": text }).to_string()),
            Err(problem) => {
                (status(&problem).as_u16(), json!({ "error": problem.to_string() }).to_string())
            }
        };
        Ok(place.insert(answer).clone())
    });
    match answered.await {
        Ok((status, body)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, [(header::CONTENT_TYPE, JSON)], body).into_response()
        }
        Err(problem) => error(&problem),
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
