//! How a command of a person fails, as panel and notifications show it.

use std::error::Error;

use oneslot::control_client::ControlError;
use oneslot::telemetry::message::{Fact, Message};
use serde::Serialize;

/// The kind of failure, and a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Fault {
    /// What kind of failure it is.
    pub code: Reason,
    /// What happened.
    pub message: Message,
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
        Self::because(Fact::Failed {
            error: chain(error),
        })
    }

    /// It could not be done, for this reason.
    pub fn because(fact: Fact) -> Self {
        Self {
            code: Reason::Failed,
            message: fact.message(),
        }
    }

    /// The gateway or the model server refused it.
    pub(super) fn refused(error: String) -> Self {
        Self {
            code: Reason::Refused,
            message: Fact::Failed { error }.message(),
        }
    }
}

impl From<ControlError> for Fault {
    fn from(error: ControlError) -> Self {
        let (code, fact) = match &error {
            ControlError::NotRunning | ControlError::NoListener { .. } => {
                (Reason::NotServing, Fact::NotServing)
            }
            ControlError::Refused { .. } if error.is_not_found() => {
                (Reason::NotFound, Fact::RequestGone)
            }
            ControlError::Refused { message, .. } => return Self::refused(message.clone()),
            ControlError::State(_)
            | ControlError::Connect { .. }
            | ControlError::Build(_)
            | ControlError::Exchange(_)
            | ControlError::Timeout { .. }
            | ControlError::TooLong
            | ControlError::Decode(_) => return Self::failed(&error),
        };
        Self {
            code,
            message: fact.message(),
        }
    }
}

/// An error and everything that led to it, in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
