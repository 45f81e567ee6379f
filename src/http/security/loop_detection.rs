//! Recognises the gateway's own requests when its upstream leads back to it.
//!
//! `x-oneslot-hop` names the runs of OneSlot that a request passed through, oldest first. Two
//! gateways whose base URLs name each other would otherwise send one request around until one of
//! them has no open files left. One gateway behind another, without a circle, is fine.
//!
//! Pure. Not here: addresses compared at start and reload ([`crate::upstream::Root::leads_to`]).

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header.
pub const HOP: HeaderName = HeaderName::from_static("x-oneslot-hop");

/// Longest name of a run.
const LONGEST: usize = 48;

/// This run's name in the header.
#[derive(Debug, Clone)]
pub struct Hop {
    name: String,
    value: HeaderValue,
}

impl Hop {
    /// A name that no other run has: `number` is random, `process` for the case that it is not.
    pub fn new(process: u32, number: u64) -> Self {
        let name = format!("{process:x}-{number:016x}");
        let value = HeaderValue::try_from(&name).unwrap_or(HeaderValue::from_static("0"));
        Self { name, value }
    }

    /// What a request of the gateway's own carries.
    pub fn own(&self) -> HeaderValue {
        self.value.clone()
    }

    /// Whether a request with these headers has been here before.
    pub fn is_loop(&self, headers: &HeaderMap) -> bool {
        names(headers).any(|name| name == self.name)
    }

    /// What a request with these headers carries to the upstream.
    pub fn onward(&self, headers: &HeaderMap) -> HeaderValue {
        if !headers.contains_key(HOP) {
            return self.own();
        }
        let mut passed: Vec<&str> = names(headers).collect();
        passed.push(&self.name);
        HeaderValue::try_from(passed.join(", ")).unwrap_or_else(|_| self.own())
    }
}

/// The names in the header; what cannot be the name of a run is skipped.
fn names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(HOP)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|name| {
            let plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
            (1..=LONGEST).contains(&name.len()) && name.bytes().all(plain)
        })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_recognised_and_a_chain_is_not_one() {
        let (here, there) = (Hop::new(1, 7), Hop::new(2, 7));
        assert!(!here.is_loop(&HeaderMap::new()));
        let once = here.onward(&HeaderMap::new());
        assert_eq!(once, here.own());
        let once = HeaderMap::from_iter([(HOP, once)]);
        assert!(!there.is_loop(&once), "one behind another");
        let twice = HeaderMap::from_iter([(HOP, there.onward(&once))]);
        assert!(here.is_loop(&twice), "around the circle");
    }

    #[test]
    fn invented_names_are_neither_believed_nor_passed_on() {
        let here = Hop::new(1, 7);
        for text in ["", ",,,", "x y, <script>", &"a".repeat(4000)] {
            let invented = HeaderMap::from_iter([(HOP, HeaderValue::try_from(text).unwrap())]);
            assert!(!here.is_loop(&invented), "{text:?}");
            assert_eq!(here.onward(&invented), here.own(), "{text:?}");
        }
    }
}
