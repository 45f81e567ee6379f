//! How a command of a person fails, as panel and notifications show it.

use std::error::Error;

use oneslot::control_client::ControlError;
use serde::Serialize;

/// A code for the panel's own words, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Fault {
    /// What kind of failure it is.
    pub code: Reason,
    /// What happened, in a sentence.
    pub text: String,
}

/// Why a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// No gateway runs.
    NotServing,
    /// What was named does not exist any more.
    NotFound,
    /// The gateway or the model server refused it.
    Refused,
    /// It could not be done.
    Failed,
}

impl Fault {
    /// It could not be done.
    pub fn failed(error: &dyn Error) -> Self {
        Self {
            code: Reason::Failed,
            text: chain(error),
        }
    }

    /// The gateway or the model server refused it.
    pub(super) fn refused(text: String) -> Self {
        Self {
            code: Reason::Refused,
            text,
        }
    }
}

impl From<ControlError> for Fault {
    fn from(error: ControlError) -> Self {
        let (code, text) = match &error {
            ControlError::NotRunning | ControlError::NoListener { .. } => {
                (Reason::NotServing, "OneSlot does not serve now".to_owned())
            }
            ControlError::Refused { .. } if error.is_not_found() => (
                Reason::NotFound,
                "That request is not there any more".to_owned(),
            ),
            ControlError::Refused { message, .. } => (Reason::Refused, message.clone()),
            ControlError::State(_)
            | ControlError::Connect { .. }
            | ControlError::Build(_)
            | ControlError::Exchange(_)
            | ControlError::Timeout { .. }
            | ControlError::TooLong
            | ControlError::Decode(_) => (Reason::Failed, chain(&error)),
        };
        Self { code, text }
    }
}

/// An error and everything that led to it, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
