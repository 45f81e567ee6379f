//! One message of a chat: who speaks, how large it is, which tool calls it makes or answers.
//!
//! Odd shapes are measured, never refused: the upstream says what it makes of them.

use super::scan::Scanner;
use super::span::{Kind, ScanError, Span};
use super::text::{decode, is_key};
use crate::request::size::{self, Size};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `system` or `developer`.
    System,
    /// `user`.
    User,
    /// `assistant`.
    Assistant,
    /// `tool` or `function`: the result of a call.
    Tool,
    /// Any other word, or none.
    Other,
}

/// What ties a tool call to its result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CallId {
    /// The call's own id.
    Named(String),
    /// No id: the legacy `function_call`, or a call sent without one. Paired by order.
    Unnamed,
}

/// One message, measured; its text stays in the body.
#[derive(Debug, Clone)]
pub struct Message {
    pub(super) span: Span,
    role: Role,
    role_scalars: u64,
    size: Size,
    calls: Vec<CallId>,
    answers: Option<CallId>,
}

/// What is collected while a message is read.
#[derive(Default)]
struct Draft {
    role: Option<Span>,
    size: Size,
    calls: Vec<CallId>,
    answers: Option<String>,
}

impl Message {
    /// Who speaks.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Unicode scalar values of the role's name.
    pub fn role_scalars(&self) -> u64 {
        self.role_scalars
    }

    /// Everything in it but the role: content, calls, names, reasoning.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The tool calls it makes, in order.
    pub fn calls(&self) -> &[CallId] {
        &self.calls
    }

    /// The tool call it is a result of.
    pub fn answers(&self) -> Option<&CallId> {
        self.answers.as_ref()
    }
}

/// Reads a message; `None` when the value is not an object.
pub(super) fn read(scanner: &mut Scanner<'_>) -> Result<Option<Message>, ScanError> {
    if scanner.peek() != Kind::Object {
        scanner.value()?;
        return Ok(None);
    }
    let mut draft = Draft::default();
    let span = scanner.object(|scanner, key| {
        let key = scanner.text(key.inner());
        if is_key(key, "role") {
            draft.role = string_or_any(scanner)?;
        } else if is_key(key, "content") {
            draft.size += content(scanner)?;
        } else if is_key(key, "tool_calls") {
            calls(scanner, &mut draft)?;
        } else if is_key(key, "function_call") {
            if scanner.peek() == Kind::Object {
                draft.calls.push(CallId::Unnamed);
            }
            draft.size += other(scanner)?;
        } else if is_key(key, "tool_call_id") {
            if let Some(id) = string_or_any(scanner)? {
                draft.size += size::text(scanner.text(id.inner()));
                draft.answers = Some(decode(scanner.text(id.inner())));
            }
        } else {
            draft.size += other(scanner)?;
        }
        Ok(())
    })?;
    Ok(Some(finish(scanner, span, draft)))
}

fn finish(scanner: &Scanner<'_>, span: Span, draft: Draft) -> Message {
    let name = draft.role.map(|role| decode(scanner.text(role.inner())));
    let name = name.unwrap_or_default();
    let role = match name.as_str() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => Role::Other,
    };
    let answers = match (role, draft.answers) {
        (Role::Tool, Some(id)) => Some(CallId::Named(id)),
        (Role::Tool, None) => Some(CallId::Unnamed),
        (Role::System | Role::User | Role::Assistant | Role::Other, _) => None,
    };
    Message {
        span,
        role,
        role_scalars: name.chars().count() as u64,
        size: draft.size,
        calls: draft.calls,
        answers,
    }
}

/// The span of a string; any other value is passed over.
fn string_or_any(scanner: &mut Scanner<'_>) -> Result<Option<Span>, ScanError> {
    if scanner.peek() == Kind::String {
        scanner.string().map(Some)
    } else {
        scanner.value().map(|_| None)
    }
}

/// A member nobody knows: all its text counts, `null` costs nothing.
fn other(scanner: &mut Scanner<'_>) -> Result<Size, ScanError> {
    let kind = scanner.peek();
    let span = scanner.value()?;
    Ok(match kind {
        Kind::Null => Size::default(),
        Kind::String => size::text(scanner.text(span.inner())),
        Kind::Object | Kind::Array | Kind::Number | Kind::True | Kind::False | Kind::Nothing => {
            size::any(scanner.text(span.range()))
        }
    })
}

fn content(scanner: &mut Scanner<'_>) -> Result<Size, ScanError> {
    if scanner.peek() != Kind::Array {
        return other(scanner);
    }
    let mut size = Size::default();
    scanner.array(|scanner| {
        size += if scanner.peek() == Kind::Object {
            part(scanner)?
        } else {
            other(scanner)?
        };
        Ok(())
    })?;
    Ok(size)
}

/// A content part: text by its text, an attachment as one, an unknown kind by all it holds.
fn part(scanner: &mut Scanner<'_>) -> Result<Size, ScanError> {
    let mut kind = None;
    let mut words = None;
    let span = scanner.object(|scanner, key| {
        let key = scanner.text(key.inner());
        if is_key(key, "type") {
            kind = string_or_any(scanner)?;
        } else if is_key(key, "text") {
            words = string_or_any(scanner)?;
        } else {
            scanner.value()?;
        }
        Ok(())
    })?;
    let kind = kind.map(|kind| decode(scanner.text(kind.inner())));
    Ok(match (kind.as_deref(), words) {
        (Some("text" | "input_text" | "output_text"), Some(words)) => {
            size::text(scanner.text(words.inner()))
        }
        (Some(kind), _) if is_media(kind) => Size::MEDIUM,
        _ => size::any(scanner.text(span.range())),
    })
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

fn calls(scanner: &mut Scanner<'_>, draft: &mut Draft) -> Result<(), ScanError> {
    if scanner.peek() != Kind::Array {
        draft.size += other(scanner)?;
        return Ok(());
    }
    let calls = &mut draft.calls;
    let span = scanner.array(|scanner| {
        if scanner.peek() != Kind::Object {
            scanner.value()?;
            calls.push(CallId::Unnamed);
            return Ok(());
        }
        let mut id = None;
        scanner.object(|scanner, key| {
            if is_key(scanner.text(key.inner()), "id") {
                id = string_or_any(scanner)?;
            } else {
                scanner.value()?;
            }
            Ok(())
        })?;
        calls.push(match id {
            Some(id) => CallId::Named(decode(scanner.text(id.inner()))),
            None => CallId::Unnamed,
        });
        Ok(())
    })?;
    draft.size += size::any(scanner.text(span.range()));
    Ok(())
}
