//! upstream.
