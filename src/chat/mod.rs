//! chat.
