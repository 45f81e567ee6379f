//! The upstream against a small scripted server on a real socket, and tables of recorded shapes.

mod server;

mod counting;
mod error_shapes;
mod identity;
mod overflow_shapes;
mod probing;
mod readings;
mod unloading;
mod wire;

use std::time::Duration;

use super::{Limits, Root, Upstream};

/// Generous on a busy machine, and short where a test waits for it.
fn limits(question: Duration) -> Limits {
    Limits {
        connect: Duration::from_secs(2),
        question,
        count: question,
        unload: question,
    }
}

fn upstream(root: &str) -> Upstream {
    Upstream::new(Root::parse(root).unwrap(), None, limits(LONG)).unwrap()
}

/// Never reached in a test that passes.
const LONG: Duration = Duration::from_secs(20);

/// Always reached: the server stays silent.
const SHORT: Duration = Duration::from_millis(300);
