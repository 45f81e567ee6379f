//! Tests of the metrics and their text.

use std::collections::{BTreeMap, BTreeSet};

use super::super::snapshot::{Pause, Pressure, Queue, Ram};
use super::*;

/// Families (name to type) and samples (name with labels to value) of a text, read strictly.
struct Read {
    families: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

/// Reads OpenMetrics text; says what is wrong with it, if anything.
fn read(text: &str) -> Result<Read, String> {
    let body = text
        .strip_suffix("# EOF\n")
        .ok_or("no EOF line at the end")?;
    let mut read = Read {
        families: BTreeMap::new(),
        samples: BTreeMap::new(),
    };
    let mut family = String::new();
    for line in body.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, _] => name.clone_into(&mut family),
            ["#", "TYPE", name, kind] if name == family => {
                if read
                    .families
                    .insert(family.clone(), kind.to_owned())
                    .is_some()
                {
                    return Err(format!("{name} is there twice"));
                }
            }
            ["#", "UNIT", name, unit] if name == family && name.ends_with(unit) => {}
            ["#", ..] => return Err(format!("a stray comment: {line}")),
            _ => {
                let (name, value) = read_sample(line)?;
                let kind = &read.families[&family];
                check_name(&name, &family, kind)?;
                if read.samples.insert(name, value).is_some() {
                    return Err(format!("a sample is there twice: {line}"));
                }
            }
        }
    }
    Ok(read)
}

fn read_sample(line: &str) -> Result<(String, f64), String> {
    let at = line.rfind(' ').ok_or(format!("no value: {line}"))?;
    let (name, value) = (&line[..at], &line[at + 1..]);
    let value = value.parse().map_err(|_| format!("no number: {line}"))?;
    if let Some((metric, labels)) = name.split_once('{') {
        let labels = labels
            .strip_suffix('}')
            .ok_or(format!("open labels: {line}"))?;
        let mut rest = labels;
        while !rest.is_empty() {
            let (label, after) = rest.split_once("=\"").ok_or(format!("no label: {line}"))?;
            if !is_name(label) {
                return Err(format!("a bad label: {line}"));
            }
            let mut escaped = false;
            let end = after
                .find(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                })
                .ok_or(format!("an open label: {line}"))?;
            rest = &after[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        if !is_name(metric) {
            return Err(format!("a bad name: {line}"));
        }
    } else if !is_name(name) {
        return Err(format!("a bad name: {line}"));
    }
    Ok((name.to_owned(), value))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
}

/// Whether a family of this kind may have a sample of this name.
fn check_name(name: &str, family: &str, kind: &str) -> Result<(), String> {
    let metric = name.split('{').next().unwrap_or(name);
    let suffix = metric
        .strip_prefix(family)
        .ok_or(format!("{metric} is not of {family}"))?;
    let allowed: &[&str] = match kind {
        "counter" => &["_total"],
        "gauge" => &[""],
        "info" => &["_info"],
        "histogram" => &["_bucket", "_count", "_sum"],
        _ => return Err(format!("no such type: {kind}")),
    };
    if allowed.contains(&suffix) {
        Ok(())
    } else {
        Err(format!("a {kind} has no {metric}"))
    }
}

fn record(app: &str, wait_ms: u64) -> Record {
    Record {
        app: Some(app.to_owned()),
        outcome: Outcome::Done,
        wait_ms: Some(wait_ms),
        first_token_ms: Some(wait_ms + 1),
        infer_ms: Some(10),
        total_ms: wait_ms + 10,
        completion_tokens: Some(3),
        ..Record::default()
    }
}

#[test]
fn the_text_is_openmetrics_with_and_without_anything_in_it() {
    let empty = read(&render(&Snapshot::default(), &Counts::default())).unwrap();
    assert!(
        !empty.samples.contains_key("oneslot_window_tokens"),
        "what is unknown has no sample"
    );
    let mut counts = Counts::default();
    counts.add(&record("zed", 0));
    counts.add(&Record {
        outcome: Outcome::Refused,
        code: Some("LLM_OVERLOADED".into()),
        ..Record::default()
    });
    let snapshot = Snapshot {
        queue: Queue {
            running: 1,
            waiting: 2,
            ..Queue::default()
        },
        pressure: Pressure {
            ram: Ram {
                total: Some(2),
                available: Some(1),
            },
            ..Pressure::default()
        },
        pause: Some(Pause::default()),
        ..Snapshot::default()
    };
    let full = read(&render(&snapshot, &counts)).unwrap();
    for (name, value) in [
        (
            "oneslot_requests_total{outcome=\"done\",code=\"none\"}",
            1.0,
        ),
        (
            "oneslot_requests_total{outcome=\"refused\",code=\"LLM_OVERLOADED\"}",
            1.0,
        ),
        ("oneslot_completion_tokens_total", 3.0),
        ("oneslot_running", 1.0),
        ("oneslot_waiting", 2.0),
        ("oneslot_paused", 1.0),
        ("oneslot_ram_available_bytes", 1.0),
        ("oneslot_health{oneslot_health=\"unknown\"}", 1.0),
        ("oneslot_health{oneslot_health=\"ready\"}", 0.0),
        ("oneslot_wait_seconds_bucket{le=\"0.01\"}", 1.0),
        ("oneslot_total_seconds_sum", 0.01),
    ] {
        assert_eq!(
            full.samples.get(name),
            Some(&value),
            "{name} should be {value}"
        );
    }
}

#[test]
fn buckets_add_up_and_a_bound_belongs_to_its_bucket() {
    let mut counts = Counts::default();
    for wait in [10, 11, 600_000, 600_001] {
        counts.add(&record("a", wait));
    }
    let samples = read(&render(&Snapshot::default(), &counts))
        .unwrap()
        .samples;
    let bucket = |le: &str| samples[&format!("oneslot_wait_seconds_bucket{{le=\"{le}\"}}")];
    assert_eq!(
        (
            bucket("0.01"),
            bucket("0.1"),
            bucket("600.0"),
            bucket("+Inf")
        ),
        (1.0, 2.0, 3.0, 4.0),
        "each bucket holds all that are at most its bound"
    );
    assert_eq!(
        samples["oneslot_wait_seconds_count"], 4.0,
        "and the last holds all"
    );
}

#[test]
fn apps_beyond_twenty_are_counted_together() {
    let mut counts = Counts::default();
    for n in 0..500 {
        counts.add(&record(&format!("app-{n}"), 0));
    }
    counts.add(&record("app-0", 0));
    let samples = read(&render(&Snapshot::default(), &counts))
        .unwrap()
        .samples;
    let apps: BTreeSet<&String> = samples
        .keys()
        .filter(|name| name.starts_with("oneslot_app_requests"))
        .collect();
    assert_eq!(apps.len(), 21, "a caller that renames itself costs nothing");
    assert_eq!(
        (
            samples["oneslot_app_requests_total{app=\"app-0\"}"],
            samples["oneslot_app_requests_total{app=\"other\"}"]
        ),
        (2.0, 480.0),
        "those with a name keep it, and none is lost"
    );
}

#[test]
fn a_name_with_quotes_stays_one_label() {
    let mut counts = Counts::default();
    counts.add(&record("a\"} 9\\\n", 0));
    let text = render(&Snapshot::default(), &counts);
    assert!(
        text.contains("{app=\"a\\\"} 9\\\\\\n\"} 1\n"),
        "quotes, backslashes and line feeds are escaped"
    );
    read(&text).unwrap();
}
