//! accept.
