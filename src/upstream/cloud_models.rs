//! Models that look local and run elsewhere.
//!
//! Ollama lists cloud models beside its own and forwards their chats off the machine. Their tag
//! tells: `cloud`, or one that ends in `-cloud`.

/// Whether Ollama runs this model on somebody else's machine.
pub fn runs_elsewhere(model: &str) -> bool {
    // A colon before the last slash belongs to a registry's port.
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some((_, tag)) = name.rsplit_once(':') else {
        return false;
    };
    let tag = tag.to_ascii_lowercase();
    tag == "cloud" || tag.ends_with("-cloud")
}

#[cfg(test)]
mod tests {
    use super::runs_elsewhere;

    #[test]
    fn the_tag_alone_tells_where_a_model_runs() {
        for model in ["glm-4.6:cloud", "gpt-oss:120b-cloud", "me/x:480B-Cloud"] {
            assert!(runs_elsewhere(model), "{model} is forwarded");
        }
        for model in [
            "llama3.2",
            "cloud",
            "my-cloud",
            "cloud:latest",
            "x:cloudy",
            "host:5000/my-cloud",
            "",
        ] {
            assert!(!runs_elsewhere(model), "{model} runs here");
        }
    }
}
