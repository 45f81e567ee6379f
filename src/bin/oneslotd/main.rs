//! `oneslotd`: the headless gateway and the command line that talks to a running one.
fn main() {}
