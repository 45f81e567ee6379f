//! Ollama: `/api/ps`.

use serde_json::Value;

use super::{LoadedModel, Match, WindowReading, WindowSource, reading, tokens};

/// The window of `model` from the body of `/api/ps`.
pub(super) fn window(ps: &Value, model: Option<&str>) -> WindowReading {
    let models = models(ps);
    match find(&models, model) {
        // Older versions list the model without its window.
        Match::One(model) => reading(model.window, WindowSource::OllamaPs),
        Match::Absent => WindowReading::NotLoaded,
        Match::Unclear => WindowReading::Unknown,
    }
}

/// Every model in the body of `/api/ps`.
pub(super) fn models(ps: &Value) -> Vec<LoadedModel> {
    let Some(listed) = ps["models"].as_array() else {
        return Vec::new();
    };
    listed
        .iter()
        .filter_map(|entry| {
            let name = entry["model"].as_str().or_else(|| entry["name"].as_str())?;
            Some(LoadedModel {
                name: name.to_owned(),
                instance: name.to_owned(),
                window: tokens(&entry["context_length"]),
                bytes: entry["size"].as_u64(),
                video_bytes: entry["size_vram"].as_u64(),
            })
        })
        .collect()
}

/// The loaded model that a request for `model` meets.
pub(super) fn find<'a>(loaded: &'a [LoadedModel], model: Option<&str>) -> Match<'a> {
    let Some(model) = model else {
        return match loaded {
            [] => Match::Absent,
            [only] => Match::One(only),
            _ => Match::Unclear,
        };
    };
    let wanted = full_name(model);
    match loaded.iter().find(|entry| full_name(&entry.name) == wanted) {
        Some(entry) => Match::One(entry),
        None => Match::Absent,
    }
}

/// `llama3.2` is `llama3.2:latest`, and the default registry and library may be left out.
pub(super) fn full_name(model: &str) -> String {
    let name = model.trim().to_ascii_lowercase();
    let name = name.strip_prefix("registry.ollama.ai/").unwrap_or(&name);
    let name = name.strip_prefix("library/").unwrap_or(name);
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') {
        name.to_owned()
    } else {
        format!("{name}:latest")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_without_a_tag_is_the_latest_one() {
        for (one, other) in [
            ("llama3.2", "llama3.2:latest"),
            ("Llama3.2", "llama3.2:latest"),
            (
                "library/llama3.2",
                "registry.ollama.ai/library/llama3.2:latest",
            ),
            ("hf.co/a/B:Q4_K_M", "hf.co/a/b:q4_k_m"),
        ] {
            assert_eq!(full_name(one), full_name(other), "{one} is {other}");
        }
        assert_ne!(full_name("llama3.2:1b"), full_name("llama3.2"));
        assert_ne!(full_name("me/llama3.2"), full_name("llama3.2"));
    }

    #[test]
    fn the_loaded_window_counts_and_not_the_declared_one() {
        let ps = json!({"models": [
            {"name": "llama3.2:latest", "model": "llama3.2:latest", "size": 9, "size_vram": 4,
             "context_length": 4096, "details": {"context_length": 262_144}},
            {"name": "qwen3:8b", "model": "qwen3:8b", "context_length": 32_768}]});
        let loaded = |tokens| WindowReading::Loaded {
            tokens,
            source: WindowSource::OllamaPs,
        };
        assert_eq!(window(&ps, Some("llama3.2")), loaded(4096));
        assert_eq!(window(&ps, Some("qwen3:8b")), loaded(32_768));
        assert_eq!(window(&ps, Some("qwen3:1b")), WindowReading::NotLoaded);
        assert_eq!(
            window(&ps, None),
            WindowReading::Unknown,
            "two are loaded and none is named"
        );
        assert_eq!(models(&ps)[0].video_bytes, Some(4));
    }

    #[test]
    fn nothing_loaded_is_told_from_a_window_that_is_not_named() {
        let empty = json!({"models": []});
        assert_eq!(window(&empty, Some("x")), WindowReading::NotLoaded);
        assert_eq!(window(&empty, None), WindowReading::NotLoaded);
        let old = json!({"models": [{"name": "x:latest"}]});
        assert_eq!(window(&old, Some("x")), WindowReading::Unknown);
        assert!(matches!(find(&models(&old), Some("x")), Match::One(_)));
    }
}
