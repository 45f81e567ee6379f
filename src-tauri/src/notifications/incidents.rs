//! Which lasting incident is notified: each once, and only after it has lasted.
//!
//! Pure: the time is an argument. It is not the wall clock, which may be set back in the middle of
//! an incident. Not here: how a notification is shown ([`crate::notifications`]).

use oneslot::telemetry::snapshot::{Face, Level, Snapshot};

use crate::preferences::NotifySwitches;
use crate::tray_face::is_daemon_gone;

/// A kind of incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incident {
    /// The model server stopped answering.
    Down,
    /// Memory is short.
    Memory,
    /// No model server was found.
    NoServer,
    /// The gateway does not serve.
    NotServing,
}

/// What is known of incidents.
#[derive(Debug, Default)]
pub struct Incidents([Course; 4]);

const ALL: [Incident; 4] = [
    Incident::Down,
    Incident::Memory,
    Incident::NoServer,
    Incident::NotServing,
];

/// How one kind of incident goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Course {
    #[default]
    Over,
    /// Since that moment, in milliseconds.
    Lasts(u64),
    Told,
    /// It was told and is over since that moment; soon again it is the same incident.
    Mends(u64),
}

/// How long an incident must be over before its kind is reported again, in milliseconds: a server that
/// comes and goes is one incident.
const MENDED_MS: u64 = 300_000;

impl Incidents {
    /// Takes in a snapshot, `now` in milliseconds of a clock that only runs forward. Gives the
    /// incident to tell of, if one has lasted long enough.
    pub fn see(
        &mut self,
        snapshot: &Snapshot,
        now: u64,
        switches: NotifySwitches,
    ) -> Option<Incident> {
        let mut told = None;
        for (incident, course) in ALL.into_iter().zip(&mut self.0) {
            *course = match (incident.stands(snapshot), course.at(now)) {
                (Stand::Over, Course::Told) => Course::Mends(now),
                (Stand::Over, Course::Mends(since)) => Course::Mends(since),
                (Stand::Over, Course::Over | Course::Lasts(_)) => Course::Over,
                (Stand::Unclear, course) => course,
                (Stand::Lasts, Course::Over) => Course::Lasts(now),
                (Stand::Lasts, Course::Told | Course::Mends(_)) => Course::Told,
                (Stand::Lasts, Course::Lasts(since))
                    if told.is_none() && now.saturating_sub(since) >= incident.patience_ms() =>
                {
                    told = incident.is_wanted(switches).then_some(incident);
                    Course::Told
                }
                (Stand::Lasts, course) => course,
            };
        }
        told
    }

    /// How long until an incident that lasts now has lasted long enough, in milliseconds; none
    /// while the state says nothing about it, however long that is.
    pub fn next_ms(&self, snapshot: &Snapshot, now: u64) -> Option<u64> {
        let waits = ALL
            .into_iter()
            .zip(&self.0)
            .filter_map(
                |(incident, course)| match (incident.stands(snapshot), course) {
                    (Stand::Lasts, Course::Lasts(since)) => {
                        Some((since + incident.patience_ms()).saturating_sub(now).max(1))
                    }
                    _ => None,
                },
            );
        waits.min()
    }
}

impl Course {
    /// What has mended for long enough is over.
    fn at(self, now: u64) -> Self {
        match self {
            Self::Mends(since) if now.saturating_sub(since) >= MENDED_MS => Self::Over,
            course => course,
        }
    }
}

/// Whether an incident lasts.
enum Stand {
    Lasts,
    Over,
    /// This state says nothing about it.
    Unclear,
}

impl Incident {
    fn stands(self, snapshot: &Snapshot) -> Stand {
        let lasts = match self {
            Self::Down => match snapshot.state {
                Face::Down | Face::Cooling => true,
                Face::Starting | Face::Loading | Face::Paused => return Stand::Unclear,
                _ => false,
            },
            Self::Memory => snapshot.pressure.level >= Level::High,
            Self::NoServer => snapshot.state == Face::NoServer,
            // A daemon that went is waited for, and then its place is taken.
            Self::NotServing => snapshot.state == Face::NotServing && !is_daemon_gone(snapshot),
        };
        if lasts { Stand::Lasts } else { Stand::Over }
    }

    /// A server that restarts, or a short peak, is no incident.
    fn patience_ms(self) -> u64 {
        match self {
            Self::Down => 15_000,
            Self::Memory => 30_000,
            Self::NoServer => 60_000,
            Self::NotServing => 3_000,
        }
    }

    fn is_wanted(self, switches: NotifySwitches) -> bool {
        match self {
            Self::Down => switches.down,
            Self::Memory => switches.memory,
            Self::NoServer => switches.no_server,
            Self::NotServing => switches.not_serving,
        }
    }

    /// The part of its words' keys.
    pub fn key(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Memory => "memory",
            Self::NoServer => "no_server",
            Self::NotServing => "not_serving",
        }
    }
}

#[cfg(test)]
mod tests {
    use oneslot::telemetry::message::Fact;

    use super::*;

    fn at(seconds: u64, state: Face) -> Snapshot {
        Snapshot {
            now_ms: seconds * 1000,
            state,
            ..Snapshot::default()
        }
    }

    fn told(course: &[(u64, Face)], switches: NotifySwitches) -> Vec<(u64, Incident)> {
        let mut incidents = Incidents::default();
        let see = |(s, state): &(u64, Face)| {
            let seen = incidents.see(&at(*s, *state), s * 1000, switches)?;
            Some((*s, seen))
        };
        course.iter().filter_map(see).collect()
    }

    const ON: NotifySwitches = NotifySwitches {
        down: true,
        memory: true,
        no_server: true,
        not_serving: true,
    };

    #[test]
    fn an_incident_is_told_once_after_it_has_lasted() {
        let course = [
            (0, Face::Cooling),
            (10, Face::Down),
            (15, Face::Cooling),
            (60, Face::Cooling),
        ];
        assert_eq!(told(&course, ON), [(15, Incident::Down)]);
    }

    #[test]
    fn a_server_that_flaps_tells_nothing() {
        let course: Vec<_> = (0..40)
            .map(|n| {
                (
                    n * 5,
                    if n % 2 == 0 {
                        Face::Cooling
                    } else {
                        Face::Ready
                    },
                )
            })
            .collect();
        assert_eq!(told(&course, ON), []);
    }

    #[test]
    fn a_second_incident_is_told_again() {
        let course = [
            (0, Face::Cooling),
            (20, Face::Cooling),
            (30, Face::Ready),
            (340, Face::Down),
            (360, Face::Down),
        ];
        let both = [(20, Incident::Down), (360, Incident::Down)];
        assert_eq!(told(&course, ON), both);
    }

    #[test]
    fn a_told_server_that_comes_and_goes_is_still_the_same_incident() {
        let mut course = vec![(0, Face::Cooling), (20, Face::Cooling)];
        for flap in 0..10 {
            let begins = 30 + flap * 60;
            course.extend([(begins, Face::Ready), (begins + 20, Face::Down)]);
            course.extend([(begins + 40, Face::Down), (begins + 59, Face::Paused)]);
        }
        assert_eq!(told(&course, ON), [(20, Incident::Down)]);
    }

    #[test]
    fn a_kind_that_is_switched_off_is_not_told() {
        let course = [(0, Face::Cooling), (20, Face::Cooling)];
        let off = NotifySwitches { down: false, ..ON };
        assert_eq!(told(&course, off), []);
    }

    #[test]
    fn it_is_known_when_to_look_again() {
        let mut incidents = Incidents::default();
        let fails = at(0, Face::NotServing);
        assert_eq!(incidents.next_ms(&fails, 0), None, "nothing lasts");
        incidents.see(&fails, 0, ON);
        assert_eq!(incidents.next_ms(&fails, 1_000), Some(2_000));
    }

    #[test]
    fn a_pause_in_an_outage_is_not_looked_at_again_and_again() {
        let mut incidents = Incidents::default();
        incidents.see(&at(0, Face::Down), 0, ON);
        for state in [Face::Paused, Face::Loading] {
            let now = at(20, state);
            incidents.see(&now, 20_000, ON);
            assert_eq!(incidents.next_ms(&now, 20_000), None, "{state:?}");
        }
    }

    #[test]
    fn a_wall_clock_that_is_set_back_delays_nothing() {
        let mut incidents = Incidents::default();
        incidents.see(&at(7_200, Face::Down), 0, ON);
        let told = incidents.see(&at(0, Face::Down), 15_000, ON);
        assert_eq!(told, Some(Incident::Down));
    }

    #[test]
    fn a_daemon_that_went_is_waited_for_without_a_word() {
        let mut incidents = Incidents::default();
        let mut gone = at(0, Face::NotServing);
        let reason = String::new();
        gone.notices = vec![Fact::DaemonGone { reason }.message()];
        incidents.see(&gone, 0, ON);
        assert_eq!(incidents.see(&gone, 9_000, ON), None);
    }
}
