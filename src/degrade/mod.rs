//! degrade.
