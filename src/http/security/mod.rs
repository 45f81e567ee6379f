//! Who may ask, and what passes in either direction: the rules applied before a body is read.
//!
//! Pure: parsed headers in, verdicts out. Headers for either side are built from lists of what may
//! pass, never by removing what may not.
//!
//! Not here: the order in which the rules are applied ([`super::service`]).

pub mod api_keys;
pub(crate) mod blocked_origins;
pub mod client_name;
pub mod cors;
pub mod headers;
pub mod loop_detection;
pub mod origin_policy;
pub(crate) mod upstream_headers;
