//! accept.

pub mod framing;
pub mod guarded;
pub mod head;
pub mod turn;
