//! AMD's cards on Linux, by the files that amdgpu keeps for each.
//!
//! The numbers are counters of the memory manager and do not touch the card; one that sleeps is
//! left out all the same, since older kernels woke it.

use std::path::{Path, PathBuf};

use super::power::{self, Power};
use super::{Card, Memory, MemoryKind, OnCard};

/// AMD's number among PCI vendors.
const VENDOR: u32 = 0x1002;

/// A card that does not say what it is and has no more than this is taken for one inside a
/// processor: such a card borrows the rest of its memory from the machine.
const SMALL: u64 = 4 << 30;

/// The cards of one machine.
#[derive(Debug)]
pub struct AmdCards {
    root: PathBuf,
}

impl Default for AmdCards {
    fn default() -> Self {
        Self::new("/sys/class/drm".into())
    }
}

impl AmdCards {
    /// The cards under this folder; none where it is not there.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// All cards that are awake, in the order of their numbers.
    pub fn read(&self, _model: &[u32]) -> Vec<Card> {
        let Ok(entries) = std::fs::read_dir(&self.root) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| is_card(name))
            .collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names.iter().filter_map(|name| self.card(name)).collect()
    }

    fn card(&self, name: &str) -> Option<Card> {
        let device = self.root.join(name).join("device");
        if power::id(&device, "vendor") != Some(VENDOR) || power::of(&device) == Power::Asleep {
            return None;
        }
        let product = std::fs::read_to_string(device.join("product_name")).unwrap_or_default();
        let product = product.trim();
        Some(Card {
            place: format!("amd:{name}"),
            name: if product.is_empty() {
                format!("AMD {name}")
            } else {
                product.to_owned()
            },
            memory: memory(&device),
            own: None,
            model: OnCard::NotSeen,
        })
    }
}

/// `card0`, not `card0-DP-1` and not `renderD128`.
fn is_card(name: &str) -> bool {
    name.strip_prefix("card")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn memory(device: &Path) -> Option<Memory> {
    let (total, used) = (
        number(device, "mem_info_vram_total").filter(|total| *total > 0)?,
        number(device, "mem_info_vram_used")?,
    );
    let shared = number(device, "mem_info_gtt_total").unwrap_or(0);
    let memory = if is_in_processor(device, total) {
        let borrowed = number(device, "mem_info_gtt_used").unwrap_or(0);
        let (total, used) = (total.saturating_add(shared), used.saturating_add(borrowed));
        Memory {
            total,
            free: total.saturating_sub(used),
            kind: MemoryKind::Shared,
        }
    } else {
        Memory {
            total,
            // More used than there is says nothing.
            free: total.checked_sub(used)?,
            kind: MemoryKind::Own,
        }
    };
    memory.is_plausible().then_some(memory)
}

/// The table of metrics has another format for processors with graphics (2 and 3) than for cards
/// (1); its third byte is the format. Where there is no table, the size decides.
fn is_in_processor(device: &Path, total: u64) -> bool {
    match std::fs::read(device.join("gpu_metrics")).ok().as_deref() {
        Some([_, _, 1, ..]) => false,
        Some([_, _, 2 | 3, ..]) => true,
        Some(_) | None => total <= SMALL,
    }
}

fn number(device: &Path, file: &str) -> Option<u64> {
    let text = std::fs::read_to_string(device.join(file)).ok()?;
    text.trim().parse().ok()
}
