//! Recognises "too long" in every wording that servers use.
//!
//! The type counts first, then the words. All forms become one reading with the server's numbers,
//! so that the window can be learned and the chat trimmed once more.

use http::StatusCode;

use super::errors::ReportedError;

/// The prompt (or prompt and answer together) does not fit the server's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overflow {
    /// Tokens of the prompt, by the server's count. It may be below the window if prompt and
    /// requested answer together were too long.
    pub prompt: Option<u64>,
    /// The window, in tokens.
    pub window: Option<u64>,
    /// By how many tokens it is too long, where only that is named.
    pub excess: Option<u64>,
}

/// Which numbers a wording has, and where.
#[derive(Debug, Clone, Copy)]
enum Numbers {
    /// The prompt's before the window's.
    PromptThenWindow,
    /// The window's after these words; the prompt's by [`PROMPT_WORDS`].
    WindowAfter,
    /// Only by how much it is too long, after these words.
    ExcessAfter,
    /// None that can be distinguished.
    Absent,
}

/// Each wording in lower case; the first that matches decides.
const WORDINGS: [(&str, Numbers); 26] = [
    // llama.cpp
    (
        "exceeds the available context size",
        Numbers::PromptThenWindow,
    ),
    // Ollama
    ("exceeded max context length by", Numbers::ExcessAfter),
    ("prompt is longer than the context", Numbers::Absent),
    ("input length exceeds the context length", Numbers::Absent),
    // Ollama's MLX runner
    (
        "exceeds the model's maximum context length",
        Numbers::PromptThenWindow,
    ),
    // LM Studio
    ("trying to keep the first", Numbers::PromptThenWindow),
    (
        "tokens to keep from the initial prompt is greater",
        Numbers::PromptThenWindow,
    ),
    ("context size has been exceeded", Numbers::Absent),
    ("context the overflows", Numbers::Absent),
    ("reached context length of", Numbers::WindowAfter),
    ("context length exceeded", Numbers::Absent),
    // OpenAI, vLLM and their kin
    ("maximum context length is", Numbers::WindowAfter),
    ("maximum model length of", Numbers::WindowAfter),
    (
        "longer than the maximum model length",
        Numbers::PromptThenWindow,
    ),
    // SGLang, TabbyAPI, TGI
    (
        "longer than the model's context length",
        Numbers::PromptThenWindow,
    ),
    ("is greater than max_seq_len", Numbers::PromptThenWindow),
    ("`max_new_tokens` must be <=", Numbers::WindowAfter),
    // llama-cpp-python
    ("exceed context window of", Numbers::PromptThenWindow),
    // Anthropic
    ("prompt is too long", Numbers::PromptThenWindow),
    // Older and looser texts
    ("context_length_exceeded", Numbers::Absent),
    ("exceed_context_size_error", Numbers::Absent),
    ("exceeds context size", Numbers::Absent),
    ("exceeds the context size", Numbers::Absent),
    ("exceeds context length", Numbers::Absent),
    ("larger than the context size", Numbers::Absent),
    ("prompt too long", Numbers::Absent),
];

/// What stands right after the prompt's own number, and what right before it.
const PROMPT_WORDS: [(&str, Side); 7] = [
    (" `inputs` tokens and", Side::Before),
    (" in the messages", Side::Before),
    (" in your prompt", Side::Before),
    (" input tokens", Side::Before),
    (" in the input", Side::Before),
    ("messages resulted in ", Side::After),
    ("you requested ", Side::After),
];

#[derive(Debug, Clone, Copy)]
enum Side {
    /// The number stands before the words.
    Before,
    /// The number stands after the words.
    After,
}

/// Reads an error answer, or the error object of a stream (then `status` is its 200).
///
/// `None` for everything that is not about length.
pub fn overflow(status: StatusCode, body: &[u8]) -> Option<Overflow> {
    let may_be = match status.as_u16() {
        400 | 413 | 422 | 500 => true,
        // Inside a stream: JSON with an error in it, never an answer that talks about windows.
        200 => has_error(body),
        _ => false,
    };
    may_be.then(|| ReportedError::read(body).overflow())?
}

impl ReportedError {
    /// The overflow it reports; `None` if it is about something else.
    pub fn overflow(&self) -> Option<Overflow> {
        let by_words = by_words(&self.message.to_lowercase());
        let is_typed = self.kind.as_deref() == Some("exceed_context_size_error")
            || self.code.as_deref() == Some("context_length_exceeded");
        if by_words.is_none() && !is_typed {
            return None;
        }
        let found = by_words.unwrap_or_default();
        Some(Overflow {
            prompt: self.prompt_tokens.or(found.prompt),
            window: self.window.or(found.window),
            excess: found.excess,
        })
    }
}

fn has_error(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|value| !value["error"].is_null())
}

fn by_words(text: &str) -> Option<Overflow> {
    let (start, words, numbers) = WORDINGS
        .iter()
        .find_map(|(words, numbers)| Some((text.find(words)?, *words, *numbers)))?;
    let after = &text[start + words.len()..];
    let mut found = Overflow::default();
    match numbers {
        Numbers::PromptThenWindow => {
            let mut all = numbers_in(text);
            if let (Some(prompt), Some(window)) = (all.next(), all.next()) {
                found.prompt = Some(prompt);
                found.window = Some(window);
            }
        }
        Numbers::WindowAfter => {
            found.window = numbers_in(after).next();
            found.prompt = PROMPT_WORDS
                .iter()
                .find_map(|(words, side)| beside(text, words, *side));
        }
        Numbers::ExcessAfter => found.excess = numbers_in(after).next(),
        Numbers::Absent => {}
    }
    Some(found)
}

fn beside(text: &str, words: &str, side: Side) -> Option<u64> {
    let at = text.find(words)?;
    match side {
        Side::Before => {
            let before = text[..at].strip_suffix(" tokens").unwrap_or(&text[..at]);
            let digits = before.len() - before.bytes().rev().take_while(u8::is_ascii_digit).count();
            before[digits..].parse().ok()
        }
        Side::After => {
            let after = &text[at + words.len()..];
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            after[..digits].parse().ok()
        }
    }
}

/// Whole numbers that stand alone; `3` in `llama-3` or `v1` is part of a name.
fn numbers_in(text: &str) -> impl Iterator<Item = u64> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ',')))
        .map(|word| word.trim_end_matches(['.', ',']))
        .filter_map(|word| word.replace(',', "").parse().ok())
}
