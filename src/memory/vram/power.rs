//! Whether a PCI device sleeps, by the kernel's own record: reading it does not wake the device.

use std::path::Path;

/// A device's power state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It runs, or the system does not manage its power.
    Awake,
    /// It sleeps, or is on its way: asking it anything would wake it.
    Asleep,
}

/// The state of the device at this folder of sysfs.
pub fn of(device: &Path) -> Power {
    let status = std::fs::read_to_string(device.join("power/runtime_status"));
    match status.as_deref().map(str::trim) {
        Ok("suspended" | "suspending") => Power::Asleep,
        Ok(_) | Err(_) => Power::Awake,
    }
}

/// A number in hexadecimal from a file such as `vendor`: `0x10de`.
pub fn id(device: &Path, file: &str) -> Option<u32> {
    let text = std::fs::read_to_string(device.join(file)).ok()?;
    let digits = text.trim().strip_prefix("0x")?;
    u32::from_str_radix(digits, 16).ok()
}
