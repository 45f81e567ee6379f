//! Asking the desktop to open a file, a folder or a page. Where nothing comes of it a person is
//! told what could not be opened and why, not how it was tried.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::gateway_link::{Fault, Reason};

/// How long an opener may take to say that it failed. One that goes on for longer has handed over:
/// some of them wait for the program that they started.
const SAYS_SO: Duration = Duration::from_secs(5);

/// Opens a file or a folder. Comes back when the desktop has taken it.
///
/// # Errors
/// It is not there, or the desktop has no program for it.
pub async fn path(path: PathBuf) -> Result<(), Fault> {
    if path.exists() {
        handed_over(path.into_os_string()).await
    } else {
        Err(fault(path.as_os_str(), "it is not there"))
    }
}

/// Opens a page. Comes back when the desktop has taken it.
///
/// # Errors
/// The desktop has no program for it.
pub async fn page(url: &str) -> Result<(), Fault> {
    handed_over(url.into()).await
}

async fn handed_over(what: OsString) -> Result<(), Fault> {
    let opened = what.clone();
    let opening = move || open::that_detached_with_timeout(opened, SAYS_SO);
    let done = tauri::async_runtime::spawn_blocking(opening).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| {
        tracing::debug!(%error, "the desktop opened nothing");
        fault(&what, why(error.kind()))
    })
}

/// What the desktop's own opener says of a failure differs from desktop to desktop.
fn why(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "no program for it was found",
        _ => "no program for it was found, or it failed",
    }
}

fn fault(what: &OsStr, why: &str) -> Fault {
    Fault {
        code: Reason::Failed,
        text: format!("{} cannot be opened: {why}", what.to_string_lossy()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::i18n::{Language, Words};

    #[test]
    fn why_nothing_was_opened_is_said_in_every_language() {
        let words = Words::built_in().unwrap();
        let kinds = [io::ErrorKind::NotFound, io::ErrorKind::Other];
        let reasons = kinds.map(why).into_iter().chain(["it is not there"]);
        for reason in reasons {
            let fault = fault(OsStr::new("/home/me/logs"), reason);
            let heard = words.hears(Language::Chinese, &fault.text);
            assert!(heard.contains("/home/me/logs"), "{heard}");
            assert_ne!(heard, fault.text, "it is translated");
        }
    }

    #[test]
    fn what_is_not_there_is_said_with_its_path() {
        let gone = PathBuf::from("/nowhere/oneslot");
        let text = tauri::async_runtime::block_on(path(gone)).unwrap_err().text;
        assert_eq!(text, "/nowhere/oneslot cannot be opened: it is not there");
    }
}
