//! slot.
