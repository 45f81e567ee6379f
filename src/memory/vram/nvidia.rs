//! NVIDIA's cards, by the driver's own library, which is loaded only while it is needed.
//!
//! Every call may fail by itself: then that one thing is unknown. A library that is missing or
//! does not fit its driver is tried again seldom, and the log hears of it once. An open library
//! keeps a card from sleeping, so it is opened only for a card that is awake and let go with the
//! last request. Not here: the library itself; [`Library`] is as much of it as is used.

#[cfg(any(target_os = "linux", windows))]
mod library;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::power::{self, Power};
use super::{Card, Memory, MemoryKind, OnCard};

/// NVIDIA's number among PCI vendors.
const VENDOR: u32 = 0x10de;
/// Display controllers among PCI classes (the first of three bytes).
const DISPLAY: u32 = 0x03;

/// After a failure the library is tried again this much later, doubling …
const RETRY: Duration = Duration::from_secs(30);
/// … up to this.
const RETRY_AT_MOST: Duration = Duration::from_secs(1800);

/// Cards are looked for among all devices this often.
const LIST_FOR: Duration = Duration::from_secs(60);

/// The library, as far as it is used. Cards are numbered from 0.
pub trait Library: Send {
    /// How many cards there are.
    ///
    /// # Errors
    /// As for every call, in the library's own words.
    fn count(&self) -> Result<u32, LibraryError>;
    /// A card's name.
    ///
    /// # Errors
    /// The call alone failed.
    fn name(&self, card: u32) -> Result<String, LibraryError>;
    /// A card's memory in bytes: all, and free.
    ///
    /// # Errors
    /// The call alone failed; a chip that shares the machine's memory has none to tell of.
    fn memory(&self, card: u32) -> Result<(u64, u64), LibraryError>;
    /// The processes on a card, and the bytes of each where they are known.
    ///
    /// # Errors
    /// The call alone failed.
    fn processes(&self, card: u32) -> Result<Vec<(u32, Option<u64>)>, LibraryError>;
}

/// Why the library, or one of its calls, failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// It is not on this machine.
    #[error("NVIDIA's library is not there")]
    Absent,
    /// It is there and does not fit, or its driver is not loaded.
    #[error("NVIDIA's library cannot be used: {0}")]
    Unusable(String),
    /// The card, or this machine, does not have what was asked for.
    #[error("not supported")]
    NotSupported,
    /// The card is gone, or the driver lost it.
    #[error("the card is lost")]
    Lost,
    /// Another failure of one call, in the library's own words.
    #[error("{0}")]
    Call(String),
}

/// Opens the library.
pub type Open = Box<dyn Fn() -> Result<Box<dyn Library>, LibraryError> + Send>;

/// The cards of one machine.
pub struct NvidiaCards {
    open: Open,
    devices: PathBuf,
    /// The cards among the devices, and when they were looked for.
    known: Option<(Duration, Vec<PathBuf>)>,
    state: State,
    failures: u32,
}

enum State {
    /// Not open.
    Closed,
    /// Open since a request came.
    Open(Box<dyn Library>),
    /// It failed: not tried before this time.
    Failed(Duration),
}

impl NvidiaCards {
    /// The cards of this machine.
    pub fn new() -> Self {
        #[cfg(any(target_os = "linux", windows))]
        let open: Open = Box::new(library::open);
        #[cfg(not(any(target_os = "linux", windows)))]
        let open: Open = Box::new(|| Err(LibraryError::Absent));
        Self::with(open, "/sys/bus/pci/devices".into())
    }

    /// Cards behind another library, with the kernel's list of devices at `devices`.
    pub fn with(open: Open, devices: PathBuf) -> Self {
        Self {
            open,
            devices,
            known: None,
            state: State::Closed,
            failures: 0,
        }
    }

    /// All cards at `now`; none while one sleeps or the library fails.
    pub fn read(&mut self, model: &[u32], now: Duration) -> Vec<Card> {
        if let State::Failed(until) = self.state
            && now < until
        {
            return Vec::new();
        }
        if self.any_sleeps(now) {
            self.rest();
            return Vec::new();
        }
        if !matches!(self.state, State::Open(_)) {
            match (self.open)() {
                Ok(library) => self.state = State::Open(library),
                Err(error) => {
                    self.fail(error, now);
                    return Vec::new();
                }
            }
        }
        let State::Open(library) = &self.state else {
            return Vec::new();
        };
        match library.count() {
            Ok(count) => {
                self.failures = 0;
                // No machine has more; a wrong number must not make a long loop.
                let places = 0..count.min(64);
                places
                    .map(|place| card(library.as_ref(), place, model))
                    .collect()
            }
            Err(error) => {
                self.fail(error, now);
                Vec::new()
            }
        }
    }

    /// Closes the library; what failed stays failed until its time.
    pub fn rest(&mut self) {
        if let State::Open(_) = self.state {
            self.state = State::Closed;
        }
    }

    fn fail(&mut self, error: LibraryError, now: Duration) {
        if self.failures == 0 {
            match &error {
                // Most machines have none: that is nothing to say.
                LibraryError::Absent => tracing::debug!(%error, "no VRAM is read"),
                LibraryError::Unusable(_)
                | LibraryError::NotSupported
                | LibraryError::Lost
                | LibraryError::Call(_) => {
                    tracing::warn!(%error, "the VRAM of NVIDIA's cards is not known");
                }
            }
        }
        let wait = RETRY.saturating_mul(1 << self.failures.min(6));
        self.failures = self.failures.saturating_add(1);
        self.state = State::Failed(now + wait.min(RETRY_AT_MOST));
    }

    /// Whether one of the cards that the kernel lists sleeps: opening the library would wake it.
    /// Where none is listed (WSL, Windows) it is unknown.
    fn any_sleeps(&mut self, now: Duration) -> bool {
        let old = |(at, _): &(Duration, _)| now.saturating_sub(*at) >= LIST_FOR;
        if self.known.as_ref().is_none_or(old) {
            self.known = Some((now, listed(&self.devices)));
        }
        let cards = self.known.iter().flat_map(|(_, cards)| cards);
        cards
            .into_iter()
            .any(|card| power::of(card) == Power::Asleep)
    }
}

/// NVIDIA's display controllers among all PCI devices.
fn listed(devices: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(devices) else {
        return Vec::new();
    };
    let is_card = |device: &PathBuf| {
        let class = power::id(device, "class").map(|class| class >> 16);
        class == Some(DISPLAY) && power::id(device, "vendor") == Some(VENDOR)
    };
    let devices = entries.flatten().map(|entry| entry.path());
    devices.filter(is_card).collect()
}

impl Default for NvidiaCards {
    fn default() -> Self {
        Self::new()
    }
}

/// What one card tells; each call that fails leaves its own gap.
fn card(library: &dyn Library, place: u32, model: &[u32]) -> Card {
    let memory = match library.memory(place) {
        Ok((total, free)) => {
            let kind = MemoryKind::Own;
            Some(Memory { total, free, kind }).filter(Memory::is_plausible)
        }
        Err(_) => None,
    };
    let processes = library.processes(place).unwrap_or_default();
    let ours: Vec<Option<u64>> = processes
        .into_iter()
        .filter(|(pid, _)| model.contains(pid))
        .map(|(_, bytes)| bytes)
        .collect();
    let own = ours.iter().copied().sum::<Option<u64>>();
    Card {
        place: format!("nvidia:{place}"),
        name: library
            .name(place)
            .ok()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| format!("NVIDIA card {place}")),
        memory,
        own: own.filter(|_| !ours.is_empty()),
        model: if ours.is_empty() {
            OnCard::NotSeen
        } else {
            OnCard::Yes
        },
    }
}
