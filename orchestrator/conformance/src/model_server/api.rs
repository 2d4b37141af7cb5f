//! The APIs that models are asked by.

use serde_json::Value;

use super::call::Call;
use super::http::Request;
use super::reply::{Details, Turn};
use super::{chat, messages, responses};

/// How a model is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's `POST /v1/messages`.
    Messages,
    /// OpenAI's `POST /v1/responses`.
    Responses,
    /// OpenAI's `POST /v1/chat/completions`, and what many others imitate.
    Chat,
}

impl Api {
    /// By the path from `/v1/` on.
    fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => Some(Self::Messages),
            "/v1/responses" => Some(Self::Responses),
            "/v1/chat/completions" => Some(Self::Chat),
            _ => None,
        }
    }

    /// The whole answer.
    pub(super) fn message(self, turn: &Turn, call: &Call<'_>) -> Value {
        match self {
            Self::Messages => messages::message(turn, call.id, call.request.model()),
            Self::Responses => responses::message(turn, call),
            Self::Chat => chat::message(turn, call),
        }
    }

    /// The answer as the events of a stream, up to its fault if it has one.
    pub(super) fn events(self, turn: &Turn, call: &Call<'_>) -> Vec<String> {
        match self {
            Self::Messages => messages::events(turn, call.id, call.request.model()),
            Self::Responses => responses::events(turn, call),
            Self::Chat => chat::events(turn, call),
        }
    }

    /// The body of an error.
    pub(super) fn error(self, kind: &str, message: &str, details: &Details) -> Value {
        match self {
            Self::Messages => messages::error(kind, message, details),
            Self::Responses | Self::Chat => chat::error(kind, message, details),
        }
    }

    /// A stream that is nothing but an error.
    pub(super) fn failure(self, kind: &str, message: &str, call: &Call<'_>) -> Vec<String> {
        match self {
            Self::Messages => messages::failure(kind, message),
            Self::Responses => responses::failure(kind, message, call),
            Self::Chat => chat::failure(kind, message),
        }
    }
}

impl Request {
    /// The API that is spoken, if the next message of a model is asked for.
    #[must_use]
    pub fn api(&self) -> Option<Api> {
        if self.method == "POST" { Api::of(self.path()) } else { None }
    }

    /// A request for the next message of the model itself, not one on the side.
    #[must_use]
    pub fn is_main(&self) -> bool {
        self.api().is_some()
            && self.body.get("tools").and_then(Value::as_array).is_some_and(|t| !t.is_empty())
    }
}
