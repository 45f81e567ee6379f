//! Reading a chat body: one walk over the top level, then the judgement.
//!
//! Form comes before meaning: a body that is not JSON is refused as that, whatever else is
//! wrong with it.

use bytes::Bytes;

use super::message::{self, Message};
use super::scan::Scanner;
use super::span::{Kind, ScanError, Span};
use super::text::{decode, is_key};
use super::{Chat, Limit, Model, RequestedLimit, Schema, Streaming, Tools, Usage};
use crate::refusal::Refusal;
use crate::request::size::{self, Size};

/// The members that may stand only once.
const SINGLE: [&str; 5] = [
    "model",
    "messages",
    "stream",
    "max_tokens",
    "max_completion_tokens",
];

/// A member as found, not judged yet.
#[derive(Clone, Copy)]
struct Member {
    kind: Kind,
    span: Span,
}

/// What `messages` turned out to be.
enum Messages {
    Read(Vec<Message>),
    NotAnArray,
    NotObjects,
}

/// What one walk over the top level found.
struct Draft {
    single: [Option<Member>; 5],
    twice: Option<&'static str>,
    messages: Option<Messages>,
    usage: Usage,
    tools: Tools,
    schema: Schema,
    outside: Size,
    end: usize,
}

/// What is wrong with a body, and the member at fault.
#[derive(Debug)]
pub(super) struct Malformed {
    message: String,
    param: Option<&'static str>,
}

pub(super) fn read(raw: Bytes) -> Result<Chat, Malformed> {
    let draft = walk(&raw).map_err(|error| bad(format!("{error}; send one JSON object"), None))?;
    let Some(draft) = draft else {
        return Err(bad("The body must be a JSON object".to_owned(), None));
    };
    judge(raw, draft)
}

/// Reads the top level; `None` when the body is JSON but not an object.
fn walk(raw: &[u8]) -> Result<Option<Draft>, ScanError> {
    let mut scanner = Scanner::new(raw)?;
    if scanner.peek() != Kind::Object {
        scanner.value()?;
        scanner.end()?;
        return Ok(None);
    }
    let mut draft = Draft {
        single: [None; 5],
        twice: None,
        messages: None,
        usage: Usage::NotAsked,
        tools: Tools::None,
        schema: Schema::None,
        outside: Size::default(),
        end: 0,
    };
    scanner.object(|scanner, key| {
        let key = scanner.text(key.inner());
        let span = match SINGLE.iter().position(|name| is_key(key, name)) {
            Some(place) => single(scanner, &mut draft, place)?,
            None => plural(scanner, &mut draft, key)?,
        };
        draft.end = span.end;
        Ok(())
    })?;
    scanner.end()?;
    Ok(Some(draft))
}

fn single(scanner: &mut Scanner<'_>, draft: &mut Draft, place: usize) -> Result<Span, ScanError> {
    let name = SINGLE.get(place).copied();
    let kind = scanner.peek();
    let span = if name == Some("messages") {
        let (span, messages) = messages(scanner)?;
        draft.messages = Some(messages);
        span
    } else {
        scanner.value()?
    };
    if let Some(seen) = draft.single.get_mut(place) {
        if seen.is_some() {
            draft.twice = draft.twice.or(name);
        }
        *seen = Some(Member { kind, span });
    }
    Ok(span)
}

/// Members that may stand more than once without harm, since they are never rewritten.
fn plural(scanner: &mut Scanner<'_>, draft: &mut Draft, key: &[u8]) -> Result<Span, ScanError> {
    if is_key(key, "tools") || is_key(key, "functions") {
        let mut offered = 0_usize;
        let span = if scanner.peek() == Kind::Array {
            scanner.array(|scanner| {
                offered += 1;
                scanner.value().map(|_| ())
            })?
        } else {
            scanner.value()?
        };
        if offered > 0 {
            draft.tools = Tools::Offered;
            draft.outside += size::any(scanner.text(span.range()));
        }
        return Ok(span);
    }
    if is_key(key, "response_format") && scanner.peek() == Kind::Object {
        let kind = member(scanner, "type")?;
        if let Some(Member {
            kind: Kind::String,
            span,
        }) = kind.found
        {
            let wanted = decode(scanner.text(span.inner()));
            if matches!(wanted.as_str(), "json_schema" | "json_object") {
                draft.schema = Schema::Wanted;
            }
        }
        draft.outside += size::any(scanner.text(kind.object.range()));
        return Ok(kind.object);
    }
    if is_key(key, "stream_options") && scanner.peek() == Kind::Object {
        let usage = member(scanner, "include_usage")?;
        if usage.found.is_some_and(|found| found.kind == Kind::True) {
            draft.usage = Usage::Asked;
        }
        return Ok(usage.object);
    }
    scanner.value()
}

/// An object and one of its members.
struct Found {
    object: Span,
    found: Option<Member>,
}

fn member(scanner: &mut Scanner<'_>, name: &str) -> Result<Found, ScanError> {
    let mut found = None;
    let object = scanner.object(|scanner, key| {
        let wanted = is_key(scanner.text(key.inner()), name);
        let kind = scanner.peek();
        let span = scanner.value()?;
        if wanted {
            found = Some(Member { kind, span });
        }
        Ok(())
    })?;
    Ok(Found { object, found })
}

fn messages(scanner: &mut Scanner<'_>) -> Result<(Span, Messages), ScanError> {
    if scanner.peek() != Kind::Array {
        return Ok((scanner.value()?, Messages::NotAnArray));
    }
    let mut list = Vec::new();
    let mut strangers = 0_usize;
    let span = scanner.array(|scanner| {
        match message::read(scanner)? {
            Some(message) => list.push(message),
            None => strangers += 1,
        }
        Ok(())
    })?;
    let messages = if strangers == 0 {
        Messages::Read(list)
    } else {
        Messages::NotObjects
    };
    Ok((span, messages))
}

fn judge(raw: Bytes, draft: Draft) -> Result<Chat, Malformed> {
    if let Some(name) = draft.twice {
        return Err(bad(
            format!("`{name}` is given twice; send it once"),
            Some(name),
        ));
    }
    let messages = match draft.messages {
        Some(Messages::Read(messages)) => messages,
        Some(Messages::NotObjects) => {
            return Err(bad(
                "Every entry of `messages` must be an object".to_owned(),
                Some("messages"),
            ));
        }
        Some(Messages::NotAnArray) | None => {
            return Err(bad(
                "`messages` must be an array of messages".to_owned(),
                Some("messages"),
            ));
        }
    };
    let [model, _, stream, max_tokens, max_completion_tokens] = draft.single;
    Ok(Chat {
        end: draft.end,
        messages,
        model: named(&raw, model)?,
        stream: streaming(stream)?,
        usage: draft.usage,
        max_tokens: limit(&raw, max_tokens, "max_tokens")?,
        max_completion_tokens: limit(&raw, max_completion_tokens, "max_completion_tokens")?,
        tools: draft.tools,
        schema: draft.schema,
        outside: draft.outside,
        raw,
    })
}

fn named(raw: &[u8], member: Option<Member>) -> Result<Model, Malformed> {
    let Some(Member { kind, span }) = member else {
        return Ok(Model::Absent);
    };
    match kind {
        Kind::Null => Ok(Model::Blank(span)),
        Kind::String => {
            let name = decode(raw.get(span.inner()).unwrap_or_default());
            Ok(if name.is_empty() {
                Model::Blank(span)
            } else {
                Model::Named(name)
            })
        }
        Kind::Object | Kind::Array | Kind::Number | Kind::True | Kind::False | Kind::Nothing => {
            Err(bad("`model` must be a string".to_owned(), Some("model")))
        }
    }
}

fn streaming(member: Option<Member>) -> Result<Streaming, Malformed> {
    match member.map(|member| member.kind) {
        Some(Kind::True) => Ok(Streaming::Asked),
        Some(Kind::False | Kind::Null) | None => Ok(Streaming::NotAsked),
        Some(Kind::Object | Kind::Array | Kind::String | Kind::Number | Kind::Nothing) => Err(bad(
            "`stream` must be true or false".to_owned(),
            Some("stream"),
        )),
    }
}

fn limit(
    raw: &[u8],
    member: Option<Member>,
    name: &'static str,
) -> Result<Option<Limit>, Malformed> {
    let Some(Member { kind, span }) = member else {
        return Ok(None);
    };
    let spelled = raw.get(span.range()).unwrap_or_default();
    let value = match kind {
        Kind::Null => Some(RequestedLimit::Null),
        Kind::Number if spelled == b"-1" => Some(RequestedLimit::Endless),
        Kind::Number => whole(spelled).map(RequestedLimit::Tokens),
        Kind::Object | Kind::Array | Kind::String | Kind::True | Kind::False | Kind::Nothing => {
            None
        }
    };
    match value {
        Some(value) => Ok(Some(Limit { span, value })),
        None => Err(bad(
            format!("`{name}` must be a whole number of tokens, null, or -1 for no limit"),
            Some(name),
        )),
    }
}

/// A whole number: digits, or digits and a fraction of nothing but zeros, as languages spell it
/// whose numbers are all fractions.
fn whole(spelled: &[u8]) -> Option<u64> {
    let mut parts = spelled.splitn(2, |byte| *byte == b'.');
    let digits = parts.next()?;
    let is_whole = digits.iter().all(u8::is_ascii_digit)
        && parts.next().is_none_or(|fraction| {
            !fraction.is_empty() && fraction.iter().all(|byte| *byte == b'0')
        });
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_whole)?;
    // More digits than a u64 holds ask for more than any window has.
    Some(digits.parse().unwrap_or(u64::MAX))
}

fn bad(message: String, param: Option<&'static str>) -> Malformed {
    Malformed { message, param }
}

// --- Malformed ---

impl Malformed {
    pub(super) fn refusal(self) -> Refusal {
        Refusal::BadRequest {
            message: self.message,
            param: self.param,
        }
    }
}
