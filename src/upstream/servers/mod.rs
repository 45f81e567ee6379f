//! The kinds of model server: whatever is peculiar to one of them is in one file.
//!
//! Here is what they have in common: their names, and a model in memory with its window. Not here:
//! which server it is ([`super::detect`]).

pub(super) mod llama_cpp;
pub(super) mod lm_studio;
pub(super) mod ollama;
pub(super) mod plain;

use std::fmt;

use serde_json::Value;

/// The kinds of model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// llama.cpp's `llama-server`, alone or as a router.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// LM Studio.
    LmStudio,
    /// Any other server with an OpenAI list of models.
    Plain,
}

/// The window for one model, in tokens for prompt and answer together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowReading {
    /// The server named it.
    Loaded {
        /// Tokens, at least 1.
        tokens: u64,
        /// Where it was read.
        source: WindowSource,
    },
    /// The model is not loaded, or still loads: the request that loads it will set the window.
    NotLoaded,
    /// The server does not name it, or did not answer.
    Unknown,
}

/// Where a window was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSource {
    /// llama.cpp's `/props`.
    Props,
    /// llama.cpp's `/slots`.
    Slots,
    /// `meta.n_ctx` in llama.cpp's `/v1/models`.
    Models,
    /// Ollama's `/api/ps`.
    OllamaPs,
    /// LM Studio's `/api/v1/models`.
    LmStudioV1,
    /// LM Studio's older `/api/v0/models`.
    LmStudioV0,
    /// `max_model_len` in a plain `/v1/models`.
    MaxModelLen,
    /// The error for a chat that was too long.
    Overflow,
}

/// A model in the server's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedModel {
    /// The name requests use.
    pub name: String,
    /// The name that unloads it, where it is another one (LM Studio's instances).
    pub instance: String,
    /// Its window in tokens, where the server names it.
    pub window: Option<u64>,
    /// Bytes it takes in all, where the server names them.
    pub bytes: Option<u64>,
    /// Bytes of them in video memory, where the server names them.
    pub video_bytes: Option<u64>,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LlamaCpp => "llama.cpp",
            Self::Ollama => "Ollama",
            Self::LmStudio => "LM Studio",
            Self::Plain => "OpenAI-compatible server",
        })
    }
}

impl fmt::Display for WindowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Props => "/props",
            Self::Slots => "/slots",
            Self::Models => "/v1/models",
            Self::OllamaPs => "/api/ps",
            Self::LmStudioV1 => "/api/v1/models",
            Self::LmStudioV0 => "/api/v0/models",
            Self::MaxModelLen => "max_model_len",
            Self::Overflow => "the error for a chat that was too long",
        })
    }
}

/// A number of tokens; 0 is how servers say "no model".
fn tokens(value: &Value) -> Option<u64> {
    value.as_u64().filter(|tokens| *tokens > 0)
}

fn reading(tokens: Option<u64>, source: WindowSource) -> WindowReading {
    match tokens {
        Some(tokens) => WindowReading::Loaded { tokens, source },
        None => WindowReading::Unknown,
    }
}
