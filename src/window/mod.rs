//! window.
