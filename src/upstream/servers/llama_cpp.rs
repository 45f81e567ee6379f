//! llama.cpp: `/props`, `/slots` and `/v1/models`, alone or as a router.
//!
//! `/props` names the window of one slot; older builds name there what all slots share, so with
//! several slots it is compared with `/v1/models` or `/slots` and the smaller figure counts.
//! `/slots` wakes a sleeping model and keeps an idle one awake, so it is read last, and never where
//! the build can sleep. It is also the busy signal; it may be switched off (501).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::plain::entries;
use super::{LoadedModel, WindowReading, WindowSource, reading, tokens};
use crate::refusal::Outage;
use crate::upstream::client::{Client, Reply};

/// Statuses of a router's model that is in memory.
const IN_MEMORY: [&str; 2] = ["loaded", "sleeping"];

/// What the server's slots show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// How many slots work.
    pub busy: usize,
    /// Opaque: two readings that differ mean that the server moved on in between, be it in
    /// reading a prompt or in answering.
    pub progress: u64,
}

/// How many of the server's slots work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusySlots {
    /// So many.
    Count(usize),
    /// The server does not show its slots.
    NotShown,
    /// It did not answer in time: it may be working.
    NoAnswer,
}

/// Reads `/slots`, and remembers a server that does not show them.
///
/// It wakes a sleeping model and restarts the idle timer: only around a request in flight.
#[derive(Debug, Default)]
pub(in crate::upstream) struct SlotReader {
    hidden: AtomicBool,
}

impl SlotReader {
    /// Forgets what is known: another process may be there now.
    pub(in crate::upstream) fn forget(&self) {
        self.hidden.store(false, Ordering::Relaxed);
    }

    /// Whether the server shows its slots, as far as is known.
    pub(in crate::upstream) fn may_show(&self) -> bool {
        !self.hidden.load(Ordering::Relaxed)
    }

    /// One reading; `model` matters to a router only. `None` where the slots are not shown.
    pub(in crate::upstream) async fn read(
        &self,
        client: &Client,
        model: Option<&str>,
        limit: Duration,
    ) -> Result<Option<Activity>, Outage> {
        if !self.may_show() {
            return Ok(None);
        }
        let path = format!("/slots?{}", query(model));
        let reply = client.get(&path, limit).await?;
        Ok(match reply.status {
            StatusCode::NOT_IMPLEMENTED | StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => {
                self.hidden.store(true, Ordering::Relaxed);
                None
            }
            _ => reply.good_json().as_ref().and_then(activity),
        })
    }
}

/// Whether an answer is llama.cpp's: it signs every answer, owns its models by name, and says while
/// it loads.
pub(in crate::upstream) fn is_signed(reply: &Reply) -> bool {
    if reply
        .header("server")
        .is_some_and(|server| server.starts_with("llama.cpp"))
    {
        return true;
    }
    let Some(body) = reply.json() else {
        return false;
    };
    if reply.status == StatusCode::SERVICE_UNAVAILABLE {
        return says_loading(&body);
    }
    reply.status.is_success()
        && entries(&body).iter().any(|model| {
            model["owned_by"] == "llamacpp"
                || (model["meta"].is_object() && model["meta"]["n_ctx_train"].is_number())
        })
}

/// Whether `props` is the body of its `/props`.
pub(in crate::upstream) fn is_props(props: &Value) -> bool {
    props["default_generation_settings"].is_object() && props["total_slots"].is_number()
}

/// Its version, from `/props`.
pub(in crate::upstream) fn build_of(props: &Value) -> Option<String> {
    props["build_info"].as_str().map(str::to_owned)
}

/// Whether the body of a 503 means "the model is being loaded", in its forms, old and new.
pub(in crate::upstream) fn says_loading(body: &Value) -> bool {
    [&body["error"]["message"], &body["error"], &body["status"]]
        .into_iter()
        .filter_map(Value::as_str)
        .any(|text| text.to_ascii_lowercase().contains("loading"))
}

/// The window of `model`.
pub(in crate::upstream) async fn window(
    client: &Client,
    model: Option<&str>,
    limit: Duration,
) -> WindowReading {
    let props = match client.get("/props", limit).await {
        Ok(reply) if reply.status == StatusCode::SERVICE_UNAVAILABLE => {
            return WindowReading::NotLoaded;
        }
        Ok(reply) => reply.good_json(),
        Err(_) => return WindowReading::Unknown,
    };
    if let Some(props) = &props {
        if is_router(props) {
            return of_router(client, model, limit).await;
        }
        if let Some(tokens) = props_window(props) {
            // A build that can sleep names the share of one slot; its slots would wake it.
            let sleeps = props["is_sleeping"].is_boolean();
            if sleeps || props["total_slots"].as_u64().unwrap_or(1) <= 1 {
                return reading(Some(tokens), WindowSource::Props);
            }
            return smallest(client, tokens, limit).await;
        }
    }
    let list = client.get_json("/v1/models", limit).await;
    if let Some(list) = &list {
        if entries(list)
            .iter()
            .any(|entry| entry["status"].is_object())
        {
            return of_router(client, model, limit).await;
        }
        if let Some(tokens) = models_window(list) {
            return reading(Some(tokens), WindowSource::Models);
        }
    }
    let slots = client.get_json("/slots", limit).await;
    reading(slots.as_ref().and_then(slots_window), WindowSource::Slots)
}

/// Every model in memory; a server that is no router has exactly one.
pub(in crate::upstream) async fn models(
    client: &Client,
    limit: Duration,
) -> Option<Vec<LoadedModel>> {
    let list = client.get_json("/v1/models", limit).await?;
    let listed = entries(&list)
        .iter()
        .filter(|entry| in_memory(entry))
        .filter_map(|entry| {
            let name = entry["id"].as_str()?;
            Some(LoadedModel {
                name: name.to_owned(),
                instance: name.to_owned(),
                window: tokens(&entry["meta"]["n_ctx"]),
                bytes: entry["meta"]["size"].as_u64(),
                video_bytes: None,
            })
        });
    Some(listed.collect())
}

/// Whether a server's models come and go: it is a router.
pub(in crate::upstream) async fn routes(client: &Client, limit: Duration) -> bool {
    match client.get_json("/v1/models", limit).await {
        Some(list) => entries(&list)
            .iter()
            .any(|entry| entry["status"].is_object()),
        None => false,
    }
}

/// A query that names the model and asks the router to load nothing for it.
pub(in crate::upstream) fn query(model: Option<&str>) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    if let Some(model) = model {
        query.append_pair("model", model);
    }
    query.append_pair("autoload", "false");
    query.finish()
}

async fn of_router(client: &Client, model: Option<&str>, limit: Duration) -> WindowReading {
    let Some(list) = client.get_json("/v1/models", limit).await else {
        return WindowReading::Unknown;
    };
    let entry = match routed(&list, model) {
        Routed::InMemory(entry) => entry,
        Routed::Absent => return WindowReading::NotLoaded,
        Routed::Unclear => return WindowReading::Unknown,
    };
    if let Some(tokens) = tokens(&entry["meta"]["n_ctx"]) {
        return reading(Some(tokens), WindowSource::Models);
    }
    let path = format!("/props?{}", query(entry["id"].as_str()));
    let props = client.get_json(&path, limit).await;
    reading(props.as_ref().and_then(props_window), WindowSource::Props)
}

/// A router's model, seen from one request.
enum Routed<'a> {
    InMemory(&'a Value),
    Absent,
    Unclear,
}

fn routed<'a>(list: &'a Value, model: Option<&str>) -> Routed<'a> {
    let listed = entries(list);
    if let Some(model) = model {
        let named = listed.iter().find(|entry| {
            entry["id"].as_str() == Some(model)
                || entry["aliases"]
                    .as_array()
                    .is_some_and(|aliases| aliases.iter().any(|alias| alias == model))
        });
        return match named {
            Some(entry) if in_memory(entry) => Routed::InMemory(entry),
            Some(_) => Routed::Absent,
            None => Routed::Unclear,
        };
    }
    let mut loaded = listed.iter().filter(|entry| in_memory(entry));
    match (loaded.next(), loaded.next()) {
        (None, _) => Routed::Absent,
        (Some(only), None) => Routed::InMemory(only),
        (Some(_), Some(_)) => Routed::Unclear,
    }
}

/// A model without a status is the only one of a server that is no router.
fn in_memory(entry: &Value) -> bool {
    match entry["status"]["value"].as_str() {
        Some(status) => IN_MEMORY.contains(&status),
        None => !entry["status"].is_object(),
    }
}

fn is_router(props: &Value) -> bool {
    props["role"] == "router"
}

fn props_window(props: &Value) -> Option<u64> {
    tokens(&props["default_generation_settings"]["n_ctx"])
}

fn models_window(list: &Value) -> Option<u64> {
    entries(list)
        .iter()
        .filter_map(|entry| tokens(&entry["meta"]["n_ctx"]))
        .min()
}

fn slots_window(slots: &Value) -> Option<u64> {
    slots
        .as_array()?
        .iter()
        .filter_map(|slot| tokens(&slot["n_ctx"]))
        .min()
}

/// Builds that name the window in `/v1/models` are asked there; older ones have to show their
/// slots, and cannot sleep, so that nothing is woken by it.
async fn smallest(client: &Client, props: u64, limit: Duration) -> WindowReading {
    let list = client.get_json("/v1/models", limit).await;
    let (found, source) = match list.as_ref().and_then(models_window) {
        Some(found) => (Some(found), WindowSource::Models),
        None => {
            let slots = client.get_json("/slots", limit).await;
            (slots.as_ref().and_then(slots_window), WindowSource::Slots)
        }
    };
    match found {
        Some(found) if found < props => reading(Some(found), source),
        Some(_) | None => reading(Some(props), WindowSource::Props),
    }
}

fn activity(slots: &Value) -> Option<Activity> {
    let slots = slots.as_array()?;
    let mut busy = 0;
    let mut progress = DefaultHasher::new();
    for slot in slots {
        let works = slot["is_processing"].as_bool()?;
        busy += usize::from(works);
        works.hash(&mut progress);
        for counter in [
            "id_task",
            "n_past",
            "n_decoded",
            "n_prompt_tokens",
            "n_prompt_tokens_processed",
        ] {
            slot[counter].as_i64().hash(&mut progress);
        }
        // An object in older builds, a list of one in newer ones.
        let next = match &slot["next_token"] {
            Value::Array(list) => list.first().unwrap_or(&Value::Null),
            other => other,
        };
        next["n_decoded"].as_i64().hash(&mut progress);
    }
    Some(Activity {
        busy,
        progress: progress.finish(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_router_names_the_state_of_each_model() {
        let list = json!({"object": "list", "data": [
            {"id": "a", "status": {"value": "loaded"}, "meta": {"n_ctx": 2048}},
            {"id": "b", "aliases": ["bee"], "status": {"value": "unloaded"}},
            {"id": "c", "status": {"value": "loading"}}]});
        assert!(matches!(routed(&list, Some("a")), Routed::InMemory(_)));
        assert!(matches!(routed(&list, Some("bee")), Routed::Absent));
        assert!(
            matches!(routed(&list, Some("c")), Routed::Absent),
            "it loads, but is not loaded"
        );
        assert!(matches!(routed(&list, Some("x")), Routed::Unclear));
        assert!(
            matches!(routed(&list, None), Routed::InMemory(_)),
            "only one is loaded"
        );
    }

    #[test]
    fn a_question_about_a_model_never_loads_it() {
        assert_eq!(query(Some("a/b:c d")), "model=a%2Fb%3Ac+d&autoload=false");
        assert_eq!(query(None), "autoload=false");
    }

    #[test]
    fn the_loaded_window_is_never_the_trained_one() {
        let list = json!({"data": [{"id": "m", "meta": {"n_ctx": 2048, "n_ctx_train": 8192}}]});
        assert_eq!(models_window(&list), Some(2048));
        let old = json!({"data": [{"id": "m", "meta": {"n_ctx_train": 8192}}]});
        assert_eq!(models_window(&old), None);
        let router = json!({"role": "router", "default_generation_settings": {"n_ctx": 0}});
        assert_eq!(props_window(&router), None, "a router's 0 is no window");
    }

    fn slot(task: i64, processed: u64, decoded: u64) -> Value {
        json!([
            {"id": 0, "is_processing": false},
            {"id": 1, "is_processing": true, "id_task": task, "n_prompt_tokens": 900,
             "n_prompt_tokens_processed": processed, "next_token": [{"n_decoded": decoded}]}])
    }

    #[test]
    fn working_slots_are_counted() {
        assert_eq!(activity(&slot(1, 0, 0)).unwrap().busy, 1);
        let idle = json!([{"id": 0, "is_processing": false}]);
        assert_eq!(activity(&idle).unwrap().busy, 0);
        assert_eq!(activity(&json!({"error": {}})), None);
        assert_eq!(
            activity(&json!([{"id": 0}])),
            None,
            "an unknown shape proves nothing"
        );
    }

    #[test]
    fn a_silent_prompt_phase_is_seen_to_move() {
        let progress =
            |task, processed, decoded| activity(&slot(task, processed, decoded)).unwrap().progress;
        let start = progress(1, 512, 0);
        assert_eq!(
            start,
            progress(1, 512, 0),
            "the same numbers are a standstill"
        );
        assert_ne!(start, progress(1, 1024, 0), "it reads the prompt");
        assert_ne!(start, progress(1, 512, 1), "it answers");
        assert_ne!(start, progress(2, 512, 0), "it works on something else");
        let older =
            |decoded| json!([{"is_processing": true, "next_token": {"n_decoded": decoded}}]);
        assert_ne!(activity(&older(1)), activity(&older(2)));
    }
}
