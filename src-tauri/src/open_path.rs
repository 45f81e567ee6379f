//! Asking the desktop to open a file, a folder or a page. Where nothing comes of it a person is
//! told what could not be opened and why, not how it was tried.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use oneslot::telemetry::message::Fact;

use crate::gateway_link::Fault;

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
        let file = path.to_string_lossy().into_owned();
        Err(Fault::because(Fact::OpenMissing { file }))
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
        let file = what.to_string_lossy().into_owned();
        // The texts of the desktops' own openers differ.
        Fault::because(match error.kind() {
            io::ErrorKind::NotFound => Fact::OpenNoProgram { file },
            _ => Fact::OpenFailed { file },
        })
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said_with_its_path() {
        let gone = PathBuf::from("/nowhere/oneslot");
        let fault = tauri::async_runtime::block_on(path(gone)).unwrap_err();
        assert_eq!(
            fault.message.to_string(),
            "/nowhere/oneslot cannot be opened: it does not exist"
        );
    }
}
