//! OpenAI chat bodies: the members that the gateway acts on, and the shape of a message.
//!
//! Syntax comes before meaning: a body that is not JSON is refused as such, whatever else is
//! wrong with it. Messages of unusual shape are measured, never refused.

use bytes::Bytes;

use crate::refusal::Refusal;
use crate::request::message::{CallId, Message, Role};
use crate::request::parse::{bad_request, decode, inner, is_key, not_json, object, range_in, walk};
use crate::request::size::{self, Size};
use crate::request::{Chat, Limit, Model, RequestedLimit};

pub(in crate::request) const MODEL: &str = "model";
const MESSAGES: &str = "messages";
const STREAM: &str = "stream";
/// The older member for the limit of an answer: every server knows it.
pub(in crate::request) const MAX_TOKENS: &str = "max_tokens";
/// The newer member for the same limit.
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";

/// The members that may occur only once.
const SINGLE: [&str; 5] = [MODEL, MESSAGES, STREAM, MAX_TOKENS, MAX_COMPLETION_TOKENS];

/// The members of a body, not checked yet.
#[derive(Default)]
struct Draft<'a> {
    /// Values of the members in [`SINGLE`].
    single: [Option<&'a str>; SINGLE.len()],
    repeated: Option<&'static str>,
    wants_usage: bool,
    has_tools: bool,
    wants_schema: bool,
    outside: Size,
    last: &'a str,
}

pub(in crate::request) fn read(raw: Bytes) -> Result<Chat, Refusal> {
    let text = object(&raw)?;
    let mut draft = Draft::default();
    walk(text, |key, value| draft.member(key, value)).map_err(|error| not_json(&error))?;
    if let Some(name) = draft.repeated {
        return Err(bad_request(
            &format!("`{name}` is given twice; send it once"),
            Some(name),
        ));
    }
    let [model, list, stream, max_tokens, max_completion_tokens] = draft.single;
    Ok(Chat {
        // Before `end`: an object with messages has a last member.
        messages: messages(&raw, list)?,
        end: range_in(&raw, draft.last).end,
        model: named(&raw, model)?,
        is_stream: streaming(stream)?,
        wants_usage: draft.wants_usage,
        max_tokens: limit(&raw, max_tokens, MAX_TOKENS)?,
        max_completion_tokens: limit(&raw, max_completion_tokens, MAX_COMPLETION_TOKENS)?,
        has_tools: draft.has_tools,
        wants_schema: draft.wants_schema,
        outside: draft.outside,
        raw: raw.clone(),
    })
}

impl<'a> Draft<'a> {
    fn member(&mut self, key: &'a str, value: &'a str) {
        self.last = value;
        let found = SINGLE
            .iter()
            .zip(&mut self.single)
            .find(|(name, _)| is_key(key, name));
        if let Some((name, single)) = found {
            if single.replace(value).is_some() {
                self.repeated.get_or_insert(name);
            }
        } else if is_key(key, "tools") || is_key(key, "functions") {
            let entries = inner(value).trim_ascii();
            if value.starts_with('[') && !entries.is_empty() {
                self.has_tools = true;
                self.outside += size::any(value.as_bytes());
            }
        } else if is_key(key, "response_format") && value.starts_with('{') {
            let kind = string_member(value, "type");
            self.wants_schema |= matches!(kind.as_deref(), Some("json_schema" | "json_object"));
            self.outside += size::any(value.as_bytes());
        } else if is_key(key, "stream_options") && value.starts_with('{') {
            self.wants_usage |= raw_member(value, "include_usage") == Some("true");
        }
    }
}

/// The last member of this name in an object that was validated before.
fn raw_member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut found = None;
    // Text that was validated cannot fail here.
    let _ = walk(object, |key, value| {
        if is_key(key, name) {
            found = Some(value);
        }
    });
    found
}

fn string_member(object: &str, name: &str) -> Option<String> {
    raw_member(object, name)
        .filter(|value| value.starts_with('"'))
        .map(|value| decode(value).into_owned())
}

fn messages(raw: &[u8], list: Option<&str>) -> Result<Vec<Message>, Refusal> {
    let refuse = |message| bad_request(message, Some(MESSAGES));
    let list = list
        .filter(|list| list.starts_with('['))
        .ok_or_else(|| refuse("`messages` must be an array of messages"))?;
    let mut messages = Vec::new();
    let mut all_objects = true;
    walk(list, |_, item| {
        if item.starts_with('{') {
            messages.push(message(raw, item));
        } else {
            all_objects = false;
        }
    })
    .map_err(|error| not_json(&error))?;
    if all_objects {
        Ok(messages)
    } else {
        Err(refuse("Every entry of `messages` must be an object"))
    }
}

fn named(raw: &[u8], value: Option<&str>) -> Result<Model, Refusal> {
    match value {
        None => Ok(Model::Absent),
        Some(value @ ("null" | "\"\"")) => Ok(Model::Blank(range_in(raw, value))),
        Some(value) if value.starts_with('"') => Ok(Model::Named(decode(value).into_owned())),
        Some(_) => Err(bad_request("`model` must be a string", Some(MODEL))),
    }
}

fn streaming(value: Option<&str>) -> Result<bool, Refusal> {
    match value {
        Some("true") => Ok(true),
        None | Some("false" | "null") => Ok(false),
        Some(_) => Err(bad_request("`stream` must be true or false", Some(STREAM))),
    }
}

fn limit(raw: &[u8], value: Option<&str>, name: &'static str) -> Result<Option<Limit>, Refusal> {
    let Some(spelled) = value else {
        return Ok(None);
    };
    let value = match spelled {
        "null" => Some(RequestedLimit::Null),
        _ => whole(spelled),
    };
    match value {
        Some(value) => Ok(Some(Limit {
            range: range_in(raw, spelled),
            value,
        })),
        None => Err(bad_request(
            &format!("`{name}` must be a whole number of tokens, null, or -1 for no limit"),
            Some(name),
        )),
    }
}

/// A whole number in any JSON spelling, such as `16.0` or `1e+05`; numbers beyond `u64` saturate.
fn whole(spelled: &str) -> Option<RequestedLimit> {
    let number: f64 = spelled.parse().ok()?;
    if number == -1.0 {
        return Some(RequestedLimit::Endless);
    }
    // A fraction too small for a double makes no difference in tokens.
    let is_whole = number >= 0.0 && number.fract() == 0.0;
    is_whole.then_some(RequestedLimit::Tokens(number as u64))
}

/// Reads one message, an object that was validated before.
fn message(raw: &[u8], object: &str) -> Message {
    let mut role = None;
    let mut size = Size::default();
    let mut calls = Vec::new();
    let mut answers = None;
    // Text that was validated cannot fail here.
    let _ = walk(object, |key, value| {
        let is_string = value.starts_with('"');
        if is_key(key, "role") {
            role = is_string.then(|| decode(value));
        } else if is_key(key, "content") {
            size += content(value);
        } else if is_key(key, "tool_calls") && value.starts_with('[') {
            tool_calls(value, &mut calls);
            size += size::any(value.as_bytes());
        } else if is_key(key, "tool_call_id") {
            if is_string {
                size += size::text(inner(value).as_bytes());
                answers = Some(decode(value).into_owned());
            }
        } else {
            if is_key(key, "function_call") && value.starts_with('{') {
                calls.push(CallId::Unnamed);
            }
            size += other(value);
        }
    });
    let name = role.unwrap_or_default();
    let role = match &*name {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => Role::Other,
    };
    Message {
        range: range_in(raw, object),
        role,
        role_scalars: name.chars().count() as u64,
        size,
        calls,
        answers: (role == Role::Tool).then(|| answers.map_or(CallId::Unnamed, CallId::Named)),
    }
}

/// A member without a meaning here: all its text counts, `null` costs nothing.
fn other(value: &str) -> Size {
    match value.as_bytes() {
        b"null" => Size::default(),
        [b'"', ..] => size::text(inner(value).as_bytes()),
        bytes => size::any(bytes),
    }
}

fn content(value: &str) -> Size {
    if !value.starts_with('[') {
        return other(value);
    }
    let mut size = Size::default();
    // Text that was validated cannot fail here.
    let _ = walk(value, |_, item| {
        size += if item.starts_with('{') {
            part(item)
        } else {
            other(item)
        };
    });
    size
}

/// A content part: text counts by its text, an attachment as one, an unknown kind by all it holds.
fn part(object: &str) -> Size {
    let kind = string_member(object, "type");
    match kind.as_deref() {
        Some("text" | "input_text" | "output_text") => match raw_member(object, "text") {
            Some(text) if text.starts_with('"') => size::text(inner(text).as_bytes()),
            _ => size::any(object.as_bytes()),
        },
        Some(kind) if is_media(kind) => Size::MEDIUM,
        _ => size::any(object.as_bytes()),
    }
}

fn is_media(kind: &str) -> bool {
    matches!(
        kind,
        "image_url"
            | "input_image"
            | "image"
            | "input_audio"
            | "audio_url"
            | "audio"
            | "input_video"
            | "video_url"
            | "video"
            | "file"
            | "input_file"
    )
}

fn tool_calls(list: &str, calls: &mut Vec<CallId>) {
    // Text that was validated cannot fail here.
    let _ = walk(list, |_, call| {
        let id = call
            .starts_with('{')
            .then(|| string_member(call, "id"))
            .flatten();
        calls.push(id.map_or(CallId::Unnamed, CallId::Named));
    });
}
