//! The mark on everything a gateway sends to its upstream, by which it knows its own when it comes
//! back: `x-oneslot-hop` names the runs of OneSlot that a request passed through, oldest first.
//!
//! Two gateways whose base URLs name each other would else send one request around until one of
//! them has no descriptors left. One behind another, without a circle, is fine.
//!
//! Pure. Not here: addresses compared at start and reload ([`crate::upstream::Root::leads_to`]).

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::refusal::Refusal;

/// The header.
pub const HOP: HeaderName = HeaderName::from_static("x-oneslot-hop");

/// More gateways in a row than this serve nobody.
const MOST: usize = 8;

/// A name has no more letters than this.
const LONGEST: usize = 48;

/// This run's name in the header.
#[derive(Debug, Clone)]
pub struct Hop {
    name: String,
    value: HeaderValue,
}

impl Hop {
    /// A name for this run that no other has: `number` is random, `process` for the case that
    /// it is not.
    pub fn new(process: u32, number: u64) -> Self {
        let name = format!("{process:x}-{number:016x}");
        let value = HeaderValue::try_from(&name).unwrap_or(HeaderValue::from_static("0"));
        Self { name, value }
    }

    /// What a request of the gateway's own carries.
    pub fn own(&self) -> HeaderValue {
        self.value.clone()
    }

    /// Whether a request with these headers has not been here before.
    ///
    /// # Errors
    /// `Loop` for one that has, and for one that passed through too many others.
    pub fn first_time(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut passed = 0;
        for name in names(headers) {
            passed += 1;
            if name == self.name || passed > MOST {
                return Err(Refusal::Loop);
            }
        }
        Ok(())
    }

    /// Whether a request with these headers has been here before: no client can make that up.
    pub fn was_here(&self, headers: &HeaderMap) -> bool {
        names(headers).any(|name| name == self.name)
    }

    /// What a request with these headers carries on its way up.
    pub fn onward(&self, headers: &HeaderMap) -> HeaderValue {
        let mut passed: Vec<&str> = names(headers).take(MOST).collect();
        passed.push(&self.name);
        HeaderValue::try_from(passed.join(", ")).unwrap_or_else(|_| self.own())
    }
}

/// The names in the header; what cannot be one of ours is passed over.
fn names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(HOP)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|name| {
            (1..=LONGEST).contains(&name.len())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn with(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(HOP, HeaderValue::try_from(text).unwrap())])
    }

    #[test]
    fn a_request_knows_where_it_has_been() {
        let (here, there) = (Hop::new(1, 7), Hop::new(2, 7));
        assert_eq!(here.first_time(&HeaderMap::new()), Ok(()));
        let once = here.onward(&HeaderMap::new());
        assert_eq!(once, here.own());
        let once = HeaderMap::from_iter([(HOP, once)]);
        assert_eq!(there.first_time(&once), Ok(()), "one behind another");
        let twice = HeaderMap::from_iter([(HOP, there.onward(&once))]);
        assert_eq!(
            here.first_time(&twice),
            Err(Refusal::Loop),
            "around the circle"
        );
    }

    #[test]
    fn what_a_client_makes_up_is_neither_believed_nor_passed_on() {
        let here = Hop::new(1, 7);
        for text in ["", ",,,", "x y, <script>", &"a".repeat(4000)] {
            let made_up = with(text);
            assert_eq!(here.first_time(&made_up), Ok(()), "{text:?}");
            assert_eq!(here.onward(&made_up), here.own(), "{text:?}");
        }
        let chain = ["a"; MOST].join(",");
        assert_eq!(here.first_time(&with(&chain)), Ok(()));
        let longer = ["a"; MOST + 1].join(",");
        assert_eq!(here.first_time(&with(&longer)), Err(Refusal::Loop));
    }
}
