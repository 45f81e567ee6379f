//! What the machine runs on, by the files that Linux keeps for each supply, and keeping it awake.
//! Elsewhere unknown and not done.

#[cfg(target_os = "linux")]
pub mod awake;

use std::path::{Path, PathBuf};

/// What the machine runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// The mains, or nobody tells.
    #[default]
    Mains,
    /// A battery of its own that is being emptied.
    Battery,
}

/// The supplies of one machine.
#[derive(Debug)]
pub struct Supplies {
    root: PathBuf,
}

impl Default for Supplies {
    fn default() -> Self {
        Self::new("/sys/class/power_supply".into())
    }
}

impl Supplies {
    /// The supplies under this folder; none where it is not there.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// What the machine runs on right now.
    pub fn source(&self) -> Source {
        let Ok(entries) = std::fs::read_dir(&self.root) else {
            return Source::Mains;
        };
        let mut source = Source::Mains;
        for supply in entries.flatten().map(|entry| entry.path()) {
            match word(&supply, "type").as_str() {
                // A mouse has a battery as well.
                "Battery" if word(&supply, "scope") == "Device" => {}
                "Battery" if word(&supply, "status") == "Discharging" => source = Source::Battery,
                // While a plug is in, a battery that gives a little is no matter.
                "Mains" | "USB" if word(&supply, "online") == "1" => return Source::Mains,
                _ => {}
            }
        }
        source
    }
}

fn word(supply: &Path, file: &str) -> String {
    let text = std::fs::read_to_string(supply.join(file)).unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn machine(supplies: &[(&str, &[(&str, &str)])]) -> Source {
        let folder = tempfile::tempdir().unwrap();
        for (name, files) in supplies {
            let supply = folder.path().join(name);
            std::fs::create_dir(&supply).unwrap();
            for (file, text) in *files {
                std::fs::write(supply.join(file), text).unwrap();
            }
        }
        Supplies::new(folder.path().to_owned()).source()
    }

    const AC_OUT: (&str, &[(&str, &str)]) = ("AC", &[("type", "Mains\n"), ("online", "0\n")]);
    const AC_IN: (&str, &[(&str, &str)]) = ("AC", &[("type", "Mains\n"), ("online", "1\n")]);
    const EMPTYING: (&str, &[(&str, &str)]) = (
        "BAT0",
        &[("type", "Battery\n"), ("status", "Discharging\n")],
    );

    #[test]
    fn a_machine_is_on_battery_only_when_its_own_is_emptied_and_no_plug_is_in() {
        assert_eq!(machine(&[AC_OUT, EMPTYING]), Source::Battery);
        assert_eq!(machine(&[EMPTYING]), Source::Battery, "no plug is listed");
        assert_eq!(machine(&[AC_IN, EMPTYING]), Source::Mains, "a weak plug");
        let usb = ("ucsi", [("type", "USB"), ("online", "1")]);
        assert_eq!(machine(&[EMPTYING, (usb.0, &usb.1)]), Source::Mains);
        let mouse = [
            ("type", "Battery"),
            ("scope", "Device"),
            ("status", "Discharging"),
        ];
        assert_eq!(machine(&[AC_IN, ("hid", &mouse)]), Source::Mains);
        assert_eq!(
            machine(&[("hid", &mouse)]),
            Source::Mains,
            "a desktop's mouse"
        );
    }

    #[test]
    fn what_is_unknown_or_nonsense_counts_as_mains() {
        assert_eq!(Supplies::new("/nonexistent".into()).source(), Source::Mains);
        assert_eq!(machine(&[]), Source::Mains);
        assert_eq!(machine(&[("x", &[("type", "\u{0}")])]), Source::Mains);
        let odd = [("type", "Battery"), ("status", "Unknown")];
        assert_eq!(machine(&[("BAT0", &odd)]), Source::Mains);
    }
}
