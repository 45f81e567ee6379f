//! Searching for what must not be there, in every form it could have.

use std::path::{Path, PathBuf};

/// The canary that every prompt, answer and header of the suite carries.
pub(crate) const CANARY: &str = "CANARY-7f3a";

/// All files under a folder.
pub(crate) fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // A link may lead anywhere; nothing here makes one.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files_under(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// A text as it is, in base64 at each of its three positions, and percent-encoded.
pub(crate) fn forms(text: &str) -> Vec<String> {
    let mut all = vec![
        text.to_owned(),
        text.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        text.replace('-', "%2D"),
        text.replace('-', "%2d"),
    ];
    for skip in 0..3 {
        // Whole groups only: what comes before and behind would change the rest.
        let from = (3 - skip) % 3;
        let Some(middle) = text.as_bytes().get(from..) else {
            continue;
        };
        let whole = &middle[..middle.len() / 3 * 3];
        if whole.len() >= 6 {
            all.push(base64(whole));
            all.push(base64(whole).replace('+', "-").replace('/', "_"));
        }
    }
    all.dedup();
    all
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks_exact(3) {
        let bits = u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
        for shift in [18, 12, 6, 0] {
            out.push(char::from(LETTERS[(bits >> shift & 63) as usize]));
        }
    }
    out
}

/// Where a form of the canary stands, if it does.
pub(crate) fn found_in(bytes: &[u8]) -> Option<String> {
    forms(CANARY)
        .into_iter()
        .find(|form| memchr::memmem::find(bytes, form.as_bytes()).is_some())
}
