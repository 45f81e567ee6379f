//! Everybody who is connected: how many there may be, and who goes when somebody else comes.
//!
//! When every place is taken, whoever has been connected longest without asking anything gives
//! way, so that idle connections, however many, keep nobody out. Where nobody is idle it is the
//! one whose body comes slowest. Whoever waits for an answer never gives way. Not here: the clocks
//! that end silent connections anyway ([`super::guarded`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::turn::Turn;
use crate::refusal::{Part, Refusal};

/// How long a connection may be silent before it can be asked to give way: time enough for the
/// head of a client that has just connected.
const GRACE: Duration = Duration::from_millis(100);
/// How long a body may take before it can be asked to: its speed is known by then.
const BODY_GRACE: Duration = Duration::from_secs(1);
/// How long whoever was asked may take to go before the next one is.
const GOING: Duration = Duration::from_secs(2);
/// How long somebody at the door may be kept there by those whose speed is not known yet.
const SHIELD: Duration = Duration::from_secs(2);
/// How often somebody at the door looks for a place that nobody uses.
const LOOK: Duration = Duration::from_millis(20);

/// The places, and who has them.
#[derive(Debug)]
pub struct Crowd {
    size: usize,
    places: Arc<Semaphore>,
    seats: Mutex<Seats>,
}

/// A place. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Seat {
    crowd: Arc<Crowd>,
    number: u64,
    leave: Arc<Notify>,
    _place: OwnedSemaphorePermit,
}

#[derive(Debug, Default)]
struct Seats {
    next: u64,
    taken: HashMap<u64, Sitter>,
    /// Whose body was asked to give way last, and when.
    asked: Option<(u64, Instant)>,
}

#[derive(Debug)]
struct Sitter {
    turn: Arc<Turn>,
    leave: Arc<Notify>,
    asked: bool,
}

impl Crowd {
    /// A crowd of at most so many.
    pub fn of(places: usize) -> Arc<Self> {
        Arc::new(Self {
            size: places,
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            seats: Mutex::default(),
        })
    }

    /// Waits for a place for a connection with this turn. While there is none, those who have
    /// been silent longest, then those who send slowest, are asked to leave. `None` never comes
    /// while the crowd lives.
    ///
    /// # Cancel safety
    /// Dropping it takes no place.
    pub async fn seat(self: &Arc<Self>, turn: &Arc<Turn>) -> Option<Seat> {
        let came = Instant::now();
        let place = loop {
            match Arc::clone(&self.places).try_acquire_owned() {
                Ok(place) => break place,
                Err(tokio::sync::TryAcquireError::Closed) => return None,
                Err(tokio::sync::TryAcquireError::NoPermits) => {}
            }
            self.ask_somebody(came, Instant::now());
            let place = Arc::clone(&self.places).acquire_owned();
            if let Ok(place) = timeout(LOOK, place).await {
                break place.ok()?;
            }
        };
        // Whoever waited at the door was not silent: nobody listened.
        turn.seated();
        let leave = Arc::new(Notify::new());
        let mut seats = self.lock();
        let number = seats.next;
        seats.next += 1;
        let sitter = Sitter {
            turn: Arc::clone(turn),
            leave: Arc::clone(&leave),
            asked: false,
        };
        seats.taken.insert(number, sitter);
        drop(seats);
        Some(Seat {
            crowd: Arc::clone(self),
            number,
            leave,
            _place: place,
        })
    }

    /// Asks one to make room for somebody who came at `came`.
    fn ask_somebody(&self, came: Instant, now: Instant) {
        let mut seats = self.lock();
        if !seats.ask_the_idle(now) {
            seats.ask_the_slowest(came, now, self.size);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        // Every change is one insertion or removal, so a panic cannot leave it half done.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seats {
    /// Asks the one who has been silent longest, if that is long enough; whether there was one.
    fn ask_the_idle(&mut self, now: Instant) -> bool {
        let idle = self
            .taken
            .values_mut()
            .filter(|sitter| !sitter.asked)
            .filter_map(|sitter| Some((sitter.turn.idle_since()?, sitter)))
            .filter(|(since, _)| now.saturating_duration_since(*since) >= GRACE)
            .min_by_key(|(since, _)| *since);
        let Some((_, sitter)) = idle else {
            return false;
        };
        sitter.asked = true;
        sitter.leave.notify_one();
        true
    }

    /// Asks the one whose body comes slowest, once it had time to show its speed.
    ///
    /// Whoever may be slower shields it: a body that has just begun, somebody who has asked nothing
    /// yet, and a slower body of which something is being taken in just now. Else those who come
    /// anew would push out the faster ones, and so would a moment in which of all bodies the fastest
    /// alone awaits its client. Whoever stands at the door for longer is not kept there by those who
    /// go on beginning.
    fn ask_the_slowest(&mut self, came: Instant, now: Instant, size: usize) {
        // One at a time: on a busy machine who was asked takes a while to go, and who comes next
        // slowest may be fast.
        if let Some((number, at)) = self.asked
            && self.taken.contains_key(&number)
            && now.saturating_duration_since(at) < GOING
        {
            return;
        }
        let is_kept = now.saturating_duration_since(came) >= SHIELD;
        let is_unheard = |sitter: &Sitter| !sitter.asked && sitter.turn.is_unheard();
        if !is_kept && self.taken.values().any(is_unheard) {
            return;
        }
        let bodies = self.taken.iter().filter_map(|(number, sitter)| {
            let sending = sitter.turn.sending()?;
            let taken_in = sending.taken_in_since;
            // What is taken in for longer waits for room, which is not its client's doing.
            if taken_in.is_some_and(|since| now.saturating_duration_since(since) >= BODY_GRACE) {
                return None;
            }
            let took = now.saturating_duration_since(sending.since);
            let is_young = took < BODY_GRACE;
            if is_kept && is_young {
                return None;
            }
            let counted = took.max(BODY_GRACE).as_millis();
            let by_the_hour = u128::from(sending.bytes) * 3_600_000 / counted;
            let can_be_asked = taken_in.is_none() && !is_young;
            let to_ask = can_be_asked.then_some((*number, &sitter.turn));
            Some(((by_the_hour, sending.since), to_ask))
        });
        let slowest = bodies.min_by_key(|(pace, _)| *pace);
        if let Some((_, Some((number, turn)))) = slowest {
            self.asked = Some((number, now));
            turn.want_back(Refusal::TooLarge {
                part: Part::Connections,
                limit: size as u64,
            });
        }
    }
}

impl Seat {
    /// Resolves when this connection should give way and still waits for nothing.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn wanted_back(&self) {
        loop {
            self.leave.notified().await;
            let mut seats = self.crowd.lock();
            let Some(sitter) = seats.taken.get_mut(&self.number) else {
                return;
            };
            if sitter.turn.idle_since().is_some() {
                return;
            }
            // A request came in between: it is served.
            sitter.asked = false;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.crowd.lock().taken.remove(&self.number);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
