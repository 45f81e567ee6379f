//! admit.
