//! The table of promises in `ARCHITECTURE.md`, between two markers.

use crate::checkout::{self, Checkout};
use crate::fault::Fault;
use crate::say;

const PAGE: &str = "ARCHITECTURE.md";
const START: &str = "<!-- promises: written by `cargo xtask ledger --write` -->";
const END: &str = "<!-- end of promises -->";

/// Replaces what stands between the markers.
///
/// # Errors
/// [`Fault::Read`], [`Fault::Write`], or [`Fault::Content`] when the page lacks a marker.
pub(super) fn write(checkout: &Checkout, table: &str) -> Result<(), Fault> {
    let path = checkout.file(PAGE);
    let page = checkout::read(&path)?;
    match filled(&page, table) {
        Some(page) => checkout::write(&path, &page),
        None => Err(without_markers(checkout)),
    }
}

/// Checks that the page shows this very table.
///
/// # Errors
/// [`Fault::Read`], or [`Fault::Content`] when the page lacks a marker or shows another table.
pub(super) fn check(checkout: &Checkout, table: &str) -> Result<(), Fault> {
    let path = checkout.file(PAGE);
    if !path.exists() {
        say::line(&format!(
            "not checked: there is no {PAGE} to show the promises in"
        ));
        return Ok(());
    }
    let page = checkout::read(&path)?;
    match filled(&page, table) {
        Some(wanted) if wanted == page => Ok(()),
        Some(_) => Err(Fault::Content {
            path,
            reason: "its table of promises is old; run `cargo xtask ledger --write`".to_owned(),
        }),
        None => Err(without_markers(checkout)),
    }
}

/// The page with this table between its markers, or nothing when a marker is missing.
fn filled(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{START}\n\n{table}\n\n{END}{after}"))
}

fn without_markers(checkout: &Checkout) -> Fault {
    Fault::Content {
        path: checkout.file(PAGE),
        reason: format!("it has no place for the promises; add these two lines:\n{START}\n{END}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_markers_changes() {
        let page = format!("# Before\n{START}\nold\n{END}\nafter\n");
        let once = filled(&page, "| new |");
        assert_eq!(
            once.as_deref(),
            Some(format!("# Before\n{START}\n\n| new |\n\n{END}\nafter\n").as_str()),
            "the words around the table are a person's"
        );
        let again = once.as_deref().and_then(|page| filled(page, "| new |"));
        assert_eq!(again, once, "a page that is up to date stays as it is");
        assert_eq!(filled("no markers", "| new |"), None, "no place, no guess");
    }
}
