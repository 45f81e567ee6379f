//! What was measured, what it must be, and whether it is.

/// Whether a number that is not as it must be is a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// It holds still on any machine.
    Judged,
    /// Other programs' load changes it.
    Told,
}

/// The rows of one program in one state.
#[derive(Default)]
pub(super) struct Table {
    missed: Vec<String>,
}

impl Table {
    /// Prints one row; `most` is what it must not exceed.
    pub(super) fn row(&mut self, weight: Weight, what: &str, value: f64, most: f64, unit: &str) {
        let kept = value <= most;
        let said = if kept { "" } else { "  MISSED" };
        let line = format!("{what:<58} {value:>9.3}  must ≤ {most} {unit}{said}");
        println!("{line}");
        if !kept && weight == Weight::Judged {
            self.missed.push(line);
        }
    }

    /// Fails when a number that holds still is not as it must be.
    pub(super) fn judge(self) {
        assert!(
            self.missed.is_empty(),
            "more than it must be:\n{}",
            self.missed.join("\n")
        );
    }
}
