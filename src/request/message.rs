//! One message of a chat: its role, its size, and the tool calls it makes or answers.

use std::ops::Range;

use super::Size;

/// Who a message is from.
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
    pub(super) range: Range<usize>,
    pub(super) role: Role,
    pub(super) role_scalars: u64,
    pub(super) size: Size,
    pub(super) calls: Vec<CallId>,
    pub(super) answers: Option<CallId>,
}

impl Message {
    /// Who it is from.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Unicode scalar values of the role's name.
    pub fn role_scalars(&self) -> u64 {
        self.role_scalars
    }

    /// Size of everything in it but the role: content, calls, names, reasoning.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The tool calls it makes, in order.
    pub fn calls(&self) -> &[CallId] {
        &self.calls
    }

    /// The tool call that it is the result of.
    pub fn answers(&self) -> Option<&CallId> {
        self.answers.as_ref()
    }
}
