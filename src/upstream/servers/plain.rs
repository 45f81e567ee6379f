//! Any server with an OpenAI list of models at `/v1/models`.

use std::time::Duration;

use serde_json::Value;

use super::{WindowReading, WindowSource, reading, tokens};
use crate::upstream::client::Client;

/// The window of `model`.
pub(in crate::upstream) async fn window(
    client: &Client,
    model: Option<&str>,
    limit: Duration,
) -> WindowReading {
    match client.get_json("/v1/models", limit).await {
        Some(body) => max_model_len(&body, model),
        None => WindowReading::Unknown,
    }
}

/// Whether `body` is a list of models: all entries have ids; an empty list at least says that it
/// is one.
pub(in crate::upstream) fn is_list(body: &Value) -> bool {
    let models = entries(body);
    let is_list = body["object"] == "list" && (body["data"].is_array() || body["data"].is_null());
    (is_list || !models.is_empty()) && models.iter().all(|model| model["id"].is_string())
}

/// The `data` of an OpenAI list. A bare array is taken for one, `null` for an empty one.
pub(in crate::upstream) fn entries(body: &Value) -> &[Value] {
    body.as_array()
        .or_else(|| body["data"].as_array())
        .map_or(&[], Vec::as_slice)
}

/// The ids in an OpenAI list.
pub(in crate::upstream) fn names(body: &Value) -> Vec<String> {
    entries(body)
        .iter()
        .filter_map(|model| model["id"].as_str().map(str::to_owned))
        .collect()
}

/// vLLM and its relatives name the window beside the model.
fn max_model_len(body: &Value, model: Option<&str>) -> WindowReading {
    let entries = entries(body);
    let named = entries
        .iter()
        .find(|entry| model.is_some() && entry["id"].as_str() == model);
    let entry = match (named, entries) {
        (Some(entry), _) => entry,
        (None, [only]) => only,
        (None, _) => return WindowReading::Unknown,
    };
    reading(tokens(&entry["max_model_len"]), WindowSource::MaxModelLen)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plain_server_names_its_window_per_model() {
        let two = json!({"object": "list", "data": [
            {"id": "a", "max_model_len": 8192}, {"id": "b", "max_model_len": 1024}]});
        let loaded = |tokens| WindowReading::Loaded {
            tokens,
            source: WindowSource::MaxModelLen,
        };
        assert_eq!(max_model_len(&two, Some("b")), loaded(1024));
        assert_eq!(
            max_model_len(&two, Some("c")),
            WindowReading::Unknown,
            "a window of another model is a guess"
        );
        let one = json!({"data": [{"id": "a", "max_model_len": 8192}]});
        assert_eq!(max_model_len(&one, None), loaded(8192));
        let silent = json!({"data": [{"id": "a"}]});
        assert_eq!(max_model_len(&silent, Some("a")), WindowReading::Unknown);
    }

    #[test]
    fn a_list_is_read_in_every_spelling() {
        for (body, ids) in [
            (json!({"object": "list", "data": [{"id": "a"}]}), vec!["a"]),
            (json!({"data": [{"id": "a"}]}), vec!["a"]),
            (json!([{"id": "a"}, {"id": "b"}]), vec!["a", "b"]),
            (json!({"object": "list", "data": null}), vec![]),
            (json!({"object": "list", "data": []}), vec![]),
        ] {
            assert!(is_list(&body), "{body}");
            assert_eq!(names(&body), ids, "{body}");
        }
        for body in [
            json!([]),
            json!({}),
            json!({"data": []}),
            json!([{"name": "a"}]),
        ] {
            assert!(!is_list(&body), "{body} proves nothing");
        }
    }
}
