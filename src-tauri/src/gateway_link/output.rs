//! Standard output: what programs that start this one wait for.

use std::io::{self, Write as _};
use std::net::SocketAddr;

/// Prints the addresses.
pub(super) fn addresses(addresses: &[SocketAddr]) {
    for (at, address) in addresses.iter().enumerate() {
        let words = if at == 0 { "listening on" } else { "also on" };
        line(&format!("{words} http://{address}"));
    }
}

/// Prints one line, where there is a standard output.
pub(super) fn line(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}
