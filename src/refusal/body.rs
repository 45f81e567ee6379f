//! A refusal on the wire: headers, the body in the client's format, and its in-stream form.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::{Refusal, Retry};

const CODE: HeaderName = HeaderName::from_static("x-oneslot-code");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The format of an error body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorFormat {
    /// `{"error": {"message", "type", "param", "code"}}`.
    #[default]
    OpenAi,
    /// `{"error": "…"}`, of Ollama's own routes.
    Ollama,
    /// `{"type": "error", "error": {"type", "message"}}`.
    Anthropic,
}

impl ErrorFormat {
    /// The format of the apps that ask for this path; an app prefix changes nothing.
    pub fn of(path: &str) -> Self {
        let path = match path
            .strip_prefix("/app/")
            .and_then(|rest| rest.split_once('/'))
        {
            Some((_, rest)) => rest,
            None => path.strip_prefix('/').unwrap_or(path),
        };
        // LM Studio's own routes have versions and OpenAI's errors.
        let is_lm_studio = path.starts_with("api/v0/") || path.starts_with("api/v1/");
        if path.starts_with("api/") && !is_lm_studio {
            Self::Ollama
        } else if path == "v1/messages" || path.starts_with("v1/messages/") {
            Self::Anthropic
        } else {
            Self::OpenAi
        }
    }
}

impl Refusal {
    /// The JSON body, as the clients of `format` read an error.
    pub fn body(&self, format: ErrorFormat) -> Bytes {
        let body = match format {
            ErrorFormat::OpenAi => serde_json::json!({ "error": self.error_object() }),
            // An object here is a TypeError in one client and `[object Object]` in another.
            ErrorFormat::Ollama => serde_json::json!({ "error": self.message() }),
            ErrorFormat::Anthropic => serde_json::json!({
                "type": "error",
                "error": { "type": self.anthropic_kind(), "message": self.message() },
            }),
        };
        Bytes::from(body.to_string())
    }

    /// The headers a refusal carries, save the request id.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CODE, HeaderValue::from_static(self.code()));
        match self.retry() {
            Retry::Never => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            Retry::After(wait) => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("true"));
                headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_seconds(wait)));
            }
            Retry::NotByItself(wait) => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
                headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_seconds(wait)));
            }
            Retry::AsStatusSays => {}
        }
        if let Self::MethodNotAllowed { allow } = self {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        headers
    }

    /// `error.code` for clients: the stable code, save where clients know another name.
    pub fn client_code(&self) -> &str {
        match self {
            // Agents compact a chat on this code and on no other.
            Self::ContextOverflow { .. } => "context_length_exceeded",
            Self::Upstream(error) => error.code.as_deref().unwrap_or(self.code()),
            _ => self.code(),
        }
    }

    fn error_object(&self) -> serde_json::Value {
        let param = match self {
            Self::BadRequest { param, .. } => param.map(str::to_owned),
            Self::ContextOverflow { .. } => Some("messages".to_owned()),
            Self::Upstream(error) => error.param.clone(),
            _ => None,
        };
        serde_json::json!({
            "message": self.message(),
            "type": self.kind(),
            "param": param,
            "code": self.client_code(),
        })
    }

    /// `error.type` in the Anthropic format.
    fn anthropic_kind(&self) -> &'static str {
        match self.status().as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            500..=599 => "api_error",
            _ => "invalid_request_error",
        }
    }

    /// `error.type` in the OpenAI format.
    fn kind(&self) -> String {
        if let Self::Upstream(error) = self
            && let Some(kind) = &error.kind
        {
            return kind.clone();
        }
        let status = self.status();
        let kind = match status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            _ if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        };
        kind.to_owned()
    }
}

/// The SSE event that reports the failure of a stream, which then ends without `[DONE]`.
pub fn in_stream_event(refusal: &Refusal) -> Bytes {
    Bytes::from(format!(
        "data: {}\n\n",
        serde_json::json!({ "error": refusal.error_object() })
    ))
}

/// Whole seconds, rounded up, 1…60.
///
/// 0 makes openai-node retry without a pause, and above 60 its version 7 falls back to less than
/// a second.
pub fn retry_after_seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1000))
        .unwrap_or(60)
        .clamp(1, 60)
}
