//! Time lost to waiting for memory, as Linux counts it (pressure stall information).
//!
//! The kernel is asked to say when a stall begins, so that nothing is polled while there is none;
//! where it cannot (old kernel, another system, no permission) the number is read with the other
//! readings. Not here: the waiting for the kernel's word, which is the gateway's.

use std::path::PathBuf;
use std::time::Duration;

use crate::memory::thresholds::Stall;

/// After the kernel's word the number is read for this long: it is an average over ten seconds
/// and rises and falls slowly.
const AFTER_WORD: Duration = Duration::from_secs(30);

/// What the kernel is asked to tell: all processes lost 200 ms of a window of 2 s. It is the same
/// tenth at which a level rises, and a window that is open to every user.
pub const TRIGGER: &str = "full 200000 2000000";

/// Reads stalls.
#[derive(Debug)]
pub struct StallReader {
    path: PathBuf,
    by: By,
}

/// How a stall is learned of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// By looking each time.
    Looking,
    /// By the kernel's word, last heard at this time.
    Word(Option<Duration>),
}

/// `full avg10` of the text of a pressure file; `None` where it is not one.
pub fn parse(text: &str) -> Option<Stall> {
    let line = text.lines().find_map(|line| line.strip_prefix("full "))?;
    let number = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("avg10="))?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let part: u32 = format!("{part:0<2}").get(..2)?.parse().ok()?;
    let whole: u32 = whole.parse().ok()?;
    let stall = whole.checked_mul(100)?.checked_add(part)?;
    (stall <= 10_000).then_some(Stall(stall))
}

impl Default for StallReader {
    fn default() -> Self {
        Self::new("/proc/pressure/memory".into())
    }
}

impl StallReader {
    /// A reader of this file, by looking.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            by: By::Looking,
        }
    }

    /// From now on the kernel says when a stall begins.
    pub fn rely_on_word(&mut self) {
        if self.by == By::Looking {
            self.by = By::Word(None);
        }
    }

    /// The kernel says nothing any more.
    pub fn look_again(&mut self) {
        self.by = By::Looking;
    }

    /// The kernel said that a stall began.
    pub fn heard(&mut self, now: Duration) {
        if let By::Word(_) = self.by {
            self.by = By::Word(Some(now));
        }
    }

    /// The stall at `now`; `None` where it is unknown.
    pub fn read(&self, now: Duration) -> Option<Stall> {
        let quiet = match self.by {
            By::Looking => false,
            By::Word(heard) => heard.is_none_or(|at| now.saturating_sub(at) >= AFTER_WORD),
        };
        if quiet {
            // Less than a tenth was lost, by the kernel's own watching.
            return Some(Stall(0));
        }
        parse(&std::fs::read_to_string(&self.path).ok()?)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const TEXT: &str = "some avg10=45.10 avg60=9.00 avg300=1.00 total=5\n\
                        full avg10=12.34 avg60=3.00 avg300=0.50 total=4\n";

    #[test]
    fn the_kernels_numbers_are_read_and_impossible_ones_are_not() {
        let cases = [
            (TEXT, Some(1234), "the full line, not the some line"),
            (
                "full avg10=0.00 avg60=0 avg300=0 total=0",
                Some(0),
                "no stall",
            ),
            ("full avg10=100.00", Some(10_000), "all of the time"),
            ("full avg10=7", Some(700), "no decimals"),
            ("full avg10=7.5", Some(750), "one decimal"),
            ("full avg10=100.01", None, "more than all of the time"),
            ("full avg10=4294967295.99", None, "far more"),
            ("full avg10=nan", None, "no number"),
            ("full avg10=-1.00", None, "less than nothing"),
            ("full avg10=1.ää", None, "not even ASCII"),
            ("full total=4", None, "no average"),
            ("some avg10=45.10", None, "a system that counts some alone"),
            ("", None, "an empty file"),
        ];
        for (text, expected, why) in cases {
            assert_eq!(parse(text).map(|stall| stall.0), expected, "{why}");
        }
    }

    #[test]
    fn a_missing_file_is_unknown_and_not_a_stall() {
        let reader = StallReader::new("/nonexistent/pressure".into());
        assert_eq!(reader.read(Duration::ZERO), None);
    }

    #[test]
    fn with_the_kernels_word_the_file_is_read_only_for_a_while_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        std::fs::write(&path, TEXT).unwrap();
        let at = Duration::from_secs;
        let mut reader = StallReader::new(path);
        assert_eq!(
            reader.read(at(0)),
            Some(Stall(1234)),
            "without a word: by looking"
        );
        reader.rely_on_word();
        assert_eq!(reader.read(at(1)), Some(Stall(0)), "no word, no stall");
        reader.heard(at(2));
        assert_eq!(reader.read(at(3)), Some(Stall(1234)));
        assert_eq!(reader.read(at(40)), Some(Stall(0)), "the word is old");
        reader.look_again();
        assert_eq!(reader.read(at(41)), Some(Stall(1234)));
    }
}
