//! pause.
