//! Request bodies that were in flight when the server's process died: two deaths are enough.
//!
//! A broken connection alone is no death: the body is a suspect until the process is known to be
//! gone or the port refuses connections. A probe that is answered clears the suspects.

use std::sync::Arc;
use std::time::Duration;

/// Deaths after which a body is not sent again.
const LIMIT: u32 = 2;
/// From the last death: how long the body is refused, and how long a first death counts.
const MEMORY: Duration = Duration::from_secs(600);
/// How many bodies are remembered.
const CAPACITY: usize = 64;

/// One app's body, by hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) app: Arc<str>,
    pub(super) hash: u64,
}

/// Bodies that were in flight at a death of the server's process.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    suspects: Vec<Body>,
    seen: Vec<Crash>,
    /// Counts the lives of the process: ends without an answer in between are one death.
    life: u64,
}

#[derive(Debug)]
struct Crash {
    body: Body,
    deaths: u32,
    last: Duration,
    life: u64,
}

impl Crashes {
    /// The connection broke while `body` was in flight.
    pub(super) fn suspect(&mut self, body: Body) {
        if self.suspects.len() == CAPACITY {
            self.suspects.remove(0);
        }
        self.suspects.push(body);
    }

    /// The server answered: suspects only lost their connection, the process did not die.
    pub(super) fn server_answered(&mut self) {
        self.suspects.clear();
        self.life += 1;
    }

    /// Another upstream is in use.
    pub(super) fn clear_suspects(&mut self) {
        self.suspects.clear();
    }

    /// The process died: every suspect was in flight at a death.
    pub(super) fn died(&mut self, now: Duration) {
        for body in std::mem::take(&mut self.suspects) {
            self.record(body, now);
        }
    }

    fn record(&mut self, body: Body, now: Duration) {
        self.seen
            .retain(|crash| now.saturating_sub(crash.last) < MEMORY);
        if let Some(crash) = self.seen.iter_mut().find(|crash| crash.body == body) {
            if crash.life != self.life {
                crash.deaths += 1;
            }
            crash.life = self.life;
            crash.last = now;
            return;
        }
        if self.seen.len() == CAPACITY {
            self.seen.remove(0);
        }
        self.seen.push(Crash {
            body,
            deaths: 1,
            last: now,
            life: self.life,
        });
    }

    /// The body was answered: it is not what killed the server.
    pub(super) fn forget(&mut self, body: &Body) {
        self.seen.retain(|crash| crash.body != *body);
    }

    /// How much longer the body is refused; `None` if it is not.
    pub(super) fn refused_for(&self, app: &str, hash: u64, now: Duration) -> Option<Duration> {
        self.seen
            .iter()
            .find(|crash| crash.body.hash == hash && &*crash.body.app == app)
            .filter(|crash| crash.deaths >= LIMIT)
            .map(|crash| (crash.last + MEMORY).saturating_sub(now))
            .filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(hash: u64) -> Body {
        Body {
            app: "zed".into(),
            hash,
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn two_deaths_within_ten_minutes_refuse_for_ten_minutes() {
        let mut crashes = Crashes::default();
        for now in [at(0), at(599)] {
            assert_eq!(crashes.refused_for("zed", 7, now), None);
            crashes.suspect(body(7));
            crashes.died(now);
            crashes.server_answered();
        }
        assert_eq!(crashes.refused_for("zed", 7, at(600)), Some(at(599)));
        assert_eq!(
            crashes.refused_for("other", 7, at(600)),
            None,
            "another app"
        );
        assert_eq!(crashes.refused_for("zed", 8, at(600)), None, "another body");
        assert_eq!(crashes.refused_for("zed", 7, at(599 + 600)), None, "over");
    }

    #[test]
    fn deaths_further_apart_and_broken_connections_do_not_count() {
        let mut crashes = Crashes::default();
        for now in [at(0), at(600), at(1_200)] {
            crashes.suspect(body(7));
            crashes.died(now);
            crashes.server_answered();
            assert_eq!(crashes.refused_for("zed", 7, now), None);
        }
        for _ in 0..5 {
            crashes.suspect(body(8));
            crashes.server_answered();
        }
        crashes.died(at(1_300));
        assert_eq!(crashes.refused_for("zed", 8, at(1_300)), None);
    }

    #[test]
    fn one_death_counts_once_though_the_body_ran_twice() {
        let mut crashes = Crashes::default();
        crashes.suspect(body(7));
        crashes.died(at(5));
        crashes.suspect(body(7));
        crashes.died(at(5));
        assert_eq!(crashes.refused_for("zed", 7, at(5)), None);
    }
}
