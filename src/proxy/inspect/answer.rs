//! The few members of an answer that matter, read without building the rest.
//!
//! Written by hand and not derived: a member given twice must not make the whole unreadable, and
//! "absent" must differ from `null` for `error`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// One chunk, one whole answer or one error body. A top-level array reads as an empty answer.
#[derive(Default)]
pub(super) struct CompletionFields {
    pub(super) choices: Value,
    pub(super) usage: Value,
    pub(super) timings: Value,
    pub(super) error: Option<Value>,
    pub(super) object: Value,
    /// `message`, `type`, `code` and their like, for errors that have no `error` around them.
    pub(super) flat: serde_json::Map<String, Value>,
}

struct AnswerVisitor;

impl<'de> Deserialize<'de> for CompletionFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnswerVisitor)
    }
}

impl<'de> Visitor<'de> for AnswerVisitor {
    type Value = CompletionFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object or array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CompletionFields, A::Error> {
        let mut answer = CompletionFields::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "choices" => answer.choices = map.next_value()?,
                "usage" => answer.usage = map.next_value()?,
                "timings" => answer.timings = map.next_value()?,
                "error" => answer.error = Some(map.next_value()?),
                "object" => answer.object = map.next_value()?,
                "message" | "type" | "code" | "param" | "n_prompt_tokens" | "n_ctx" => {
                    let value = map.next_value()?;
                    answer.flat.insert(name, value);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(answer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<CompletionFields, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(CompletionFields::default())
    }
}
