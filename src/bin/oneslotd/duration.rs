//! How long a pause lasts, from a person's words. The clock is an argument.

use jiff::{Span, ToSpan as _, ZonedDateTime};

/// When a pause ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Until(pub(crate) ZonedDateTime);

/// No pause is longer: beyond it a person means "until resumed".
const LONGEST_S: i64 = 30 * 24 * 3600;

/// The hour at which "tomorrow" begins.
const MORNING: i8 = 8;

/// Reads `90s`, `15m`, `1h`, `1h30m`, `2d` or `tomorrow` (08:00 local time).
///
/// # Errors
///
/// What was expected instead.
pub(crate) fn parse(text: &str, now: &ZonedDateTime) -> Result<Until, String> {
    let text = text.trim().to_ascii_lowercase();
    let expected = || format!("{text:?} is no length of time; write 90s, 15m, 1h or tomorrow");
    if text == "tomorrow" {
        let morning = now.tomorrow().and_then(|day| {
            day.date()
                .at(MORNING, 0, 0, 0)
                .to_zoned_datetime(now.time_zone().clone())
        });
        return morning.map(Until).map_err(|_| expected());
    }
    let seconds = seconds(&text).ok_or_else(expected)?;
    if !(1..=LONGEST_S).contains(&seconds) {
        return Err(
            "a pause lasts from 1s to 30d; without a time it lasts until resumed".to_owned(),
        );
    }
    // In seconds and not in days, so that a clock change does not lengthen it.
    let span: Span = seconds.seconds();
    now.checked_add(span).map(Until).map_err(|_| expected())
}

fn seconds(text: &str) -> Option<i64> {
    let mut total: i64 = 0;
    let mut number: Option<i64> = None;
    for letter in text.chars() {
        if let Some(digit) = letter.to_digit(10) {
            number = Some(
                number
                    .unwrap_or(0)
                    .checked_mul(10)?
                    .checked_add(i64::from(digit))?,
            );
            continue;
        }
        let unit = match letter {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 24 * 3600,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    // A bare number could be minutes or seconds, so it is neither.
    (number.is_none() && !text.is_empty()).then_some(total)
}

impl Until {
    /// Milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> i64 {
        self.0.timestamp().as_millisecond()
    }

    /// As a person reads it, with the day only where it is another one.
    pub(crate) fn words(&self, now: &ZonedDateTime) -> String {
        let form = if self.0.date() == now.date() {
            "%H:%M"
        } else {
            "%a %Y-%m-%d %H:%M"
        };
        self.0.strftime(form).to_string()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn now() -> ZonedDateTime {
        "2026-03-28T22:10:00[Europe/Berlin]".parse().unwrap()
    }

    fn after(text: &str) -> i64 {
        (parse(text, &now()).unwrap().unix_ms() - now().timestamp().as_millisecond()) / 1000
    }

    #[test]
    fn lengths_of_time_are_read() {
        assert_eq!(after("90s"), 90);
        assert_eq!(after("15m"), 900);
        assert_eq!(after("1h"), 3600);
        assert_eq!(after(" 1H30m "), 5400);
        assert_eq!(
            after("2d"),
            172_800,
            "two days are 48 hours, also over a clock change"
        );
    }

    #[test]
    fn tomorrow_is_eight_in_the_morning_local_time_also_over_a_clock_change() {
        let until = parse("tomorrow", &now()).unwrap();
        assert_eq!(
            until.0.to_string(),
            "2026-03-29T08:00:00+02:00[Europe/Berlin]"
        );
        assert_eq!(until.words(&now()), "Sun 2026-03-29 08:00");
        assert_eq!(parse("15m", &now()).unwrap().words(&now()), "22:25");
    }

    #[test]
    fn what_is_no_length_of_time_is_refused() {
        for text in [
            "",
            "15",
            "m",
            "1x",
            "-5m",
            "1.5h",
            "0s",
            "31d",
            "99999999999999999999h",
            "soon",
        ] {
            assert!(parse(text, &now()).is_err(), "{text:?}");
        }
    }
}
