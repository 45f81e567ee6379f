//! The request formats of inference routes, one file each.

pub(super) mod openai;
