//! pressure.
