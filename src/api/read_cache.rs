//! Copies of the upstream's read-only responses: few, small, and in memory only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tokio::time::Instant;

use crate::http::security::headers::downward;
use crate::proxy::body::{ResponseBody, full};

/// A larger response is not kept.
const COPY_LIMIT: usize = 1 << 20;
/// How many responses are kept.
const COPIES: usize = 32;
const COPY_AGE: HeaderName = HeaderName::from_static("age");

/// Copies of read-only responses, by path and query.
#[derive(Debug, Default)]
pub(crate) struct ReadCache {
    copies: Mutex<HashMap<String, Copy>>,
}

#[derive(Debug, Clone)]
struct Copy {
    head: HeaderMap,
    body: Bytes,
    kept: Instant,
}

impl ReadCache {
    /// Keeps the list of models a probe brought.
    pub(crate) fn keep_models(&self, body: Bytes) {
        let mut head = HeaderMap::new();
        head.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.keep(
            "/v1/models".to_owned(),
            downward(StatusCode::OK, &head),
            body,
        );
    }

    /// Forgets everything: it was another server's.
    pub(crate) fn forget(&self) {
        self.copies().clear();
    }

    pub(super) fn keep(&self, key: String, head: HeaderMap, body: Bytes) {
        let mut copies = self.copies();
        if body.len() <= COPY_LIMIT && (copies.len() < COPIES || copies.contains_key(&key)) {
            copies.insert(
                key,
                Copy {
                    head,
                    body,
                    kept: Instant::now(),
                },
            );
        }
    }

    pub(super) fn copy(&self, key: &str) -> Option<Response<ResponseBody>> {
        let copy = self.copies().get(key).cloned()?;
        let mut response = Response::new(full(copy.body));
        *response.headers_mut() = copy.head;
        let age = HeaderValue::from(copy.kept.elapsed().as_secs());
        response.headers_mut().insert(COPY_AGE, age);
        Some(response)
    }

    fn copies(&self) -> MutexGuard<'_, HashMap<String, Copy>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
