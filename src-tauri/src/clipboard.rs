//! The desktop's clipboard. On X11 what was copied is served by the program it was copied from, so
//! the connection is kept once there is one; before the first copy there is none.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The clipboard, reached when something is first copied.
#[derive(Default)]
pub struct Clipboard {
    reached: Mutex<Option<arboard::Clipboard>>,
}

impl Clipboard {
    /// Puts text there.
    ///
    /// # Errors
    /// The desktop has no clipboard, or did not take the text.
    pub fn put(&self, text: &str) -> Result<(), arboard::Error> {
        let mut reached = self.lock();
        let clipboard = match &mut *reached {
            Some(clipboard) => clipboard,
            None => reached.insert(arboard::Clipboard::new()?),
        };
        let put = clipboard.set_text(text);
        if put.is_err() {
            // The connection may be broken: the next copy makes another.
            *reached = None;
        }
        put
    }

    /// Hands over to the desktop what lies there, as far as it can: the program ends.
    pub fn leave(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<arboard::Clipboard>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Clipboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clipboard(…)")
    }
}
