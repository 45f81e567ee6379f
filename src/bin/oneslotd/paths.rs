//! From the command line to the settings file, the state directory and the running OneSlot.

use std::path::PathBuf;

use oneslot::config::{Flag, Sources};
use oneslot::control_client::{ControlClient, ControlError};
use oneslot::state::StateDir;

use crate::Failure;
use crate::args::Paths;

impl Paths {
    /// Where the state directory is; nothing is made.
    pub(crate) fn state_path(&self) -> Result<PathBuf, Failure> {
        match &self.state {
            Some(path) => Ok(path.clone()),
            None => StateDir::usual().map_err(|error| Failure::of(&error)),
        }
    }

    /// Where the settings file is, whether or not there is one.
    pub(crate) fn config_path(&self) -> Result<PathBuf, Failure> {
        let usual = || {
            Sources::usual_file().ok_or_else(|| {
                Failure::not_done("no home directory is known; name a file with --config FILE")
            })
        };
        self.config.clone().map_or_else(usual, Ok)
    }

    /// Where settings come from, with what was typed on top.
    pub(crate) fn sources(&self, flags: Vec<Flag>) -> Result<Sources, Failure> {
        let good = StateDir::look(self.state_path()?).good_config();
        Ok(Sources::with_environment(
            self.config_path()?,
            Some(good),
            flags,
        ))
    }

    /// The OneSlot that runs with this state directory; a clear sentence if none does.
    pub(crate) fn running(&self) -> Result<ControlClient, Failure> {
        self.running_if_any()?.ok_or_else(|| {
            let path = self.state.as_ref().map_or_else(String::new, |path| {
                format!(" with state directory {}", path.display())
            });
            let flag = self
                .state
                .as_ref()
                .map_or_else(String::new, |path| format!(" --state {}", path.display()));
            Failure::not_done(format!(
                "no OneSlot is running{path}; start one with `oneslotd serve{flag}`"
            ))
        })
    }

    /// The OneSlot that runs with this state directory, if one does.
    pub(crate) fn running_if_any(&self) -> Result<Option<ControlClient>, Failure> {
        match ControlClient::find(&StateDir::look(self.state_path()?)) {
            Ok(client) => Ok(Some(client)),
            Err(ControlError::NotRunning) => Ok(None),
            Err(error) => Err(Failure::of(&error)),
        }
    }
}
