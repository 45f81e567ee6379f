//! The layers, one over the other: preset, the article's variables, file, environment, flags.
//!
//! Every member keeps where it came from. [`Sources::load`] only reads; [`Sources::start`] also
//! keeps what must not be lost: a file that cannot be used, and the last good one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::contradiction::contradictions;
use super::fault::{Fault, Notice, Place};
use super::file::{self, Content, Given, Parsed};
use super::members::{self, MEMBERS, PREFIX};
use super::{Preset, Settings, keep};

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file, which may not exist.
    pub file: PathBuf,
    /// Where the last good copy of the file is kept, if anywhere.
    pub good: Option<PathBuf>,
    /// The environment: every variable, the others are passed over.
    pub variables: Vec<(String, String)>,
    /// The command line.
    pub flags: Vec<Flag>,
}

/// A member set on the command line.
#[derive(Debug, Clone)]
pub struct Flag {
    /// The flag, such as `--listen`.
    pub name: &'static str,
    /// The member's path.
    pub member: &'static str,
    /// Its text; entries of a list are separated by commas.
    pub text: String,
}

/// Settings, and where each came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings to use.
    pub settings: Settings,
    /// Where each member came from, by path; a member that is not here has its default.
    pub origins: BTreeMap<&'static str, Origin>,
    /// What a person should know.
    pub notices: Vec<Notice>,
    /// What they were loaded from, for the next time.
    pub sources: Sources,
}

/// Where a member's value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// No one set it.
    Default,
    /// The preset differs from the default.
    Preset,
    /// Set by hand.
    Given(Place),
}

/// Why there are no settings to use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct LoadError {
    /// Everything that is wrong, not only the first.
    pub faults: Vec<Fault>,
}

impl Sources {
    /// The usual place of the file on this system; `None` without a home directory.
    pub fn usual_file() -> Option<PathBuf> {
        let dirs = directories::ProjectDirs::from("", "", "OneSlot")?;
        Some(dirs.config_dir().join("config.toml"))
    }

    /// Sources with this process's environment.
    pub fn with_environment(file: PathBuf, good: Option<PathBuf>, flags: Vec<Flag>) -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with(PREFIX) || name.starts_with("LLM_"))
            .collect();
        Self {
            file,
            good,
            variables,
            flags,
        }
    }

    /// Loads for use: a file with faults gives way to its last good copy, else to the defaults,
    /// and the notices say so. The defaults ask for no key, so where the file may have asked for
    /// one they serve nobody until it is mended. Nothing is written.
    ///
    /// # Errors
    ///
    /// Faults of environment or flags, and settings that contradict each other: those are
    /// mistakes of the moment, with a person there to mend them.
    pub fn load(&self) -> Result<Loaded, LoadError> {
        let (parsed, faults) = match self.read_file() {
            Ok(parsed) => (parsed, Vec::new()),
            Err(faults) => (Parsed::default(), faults),
        };
        if faults.is_empty() {
            return self.resolve(parsed);
        }
        match self.read_good() {
            Some((good, parsed)) => {
                let mut loaded = self.resolve(parsed)?;
                if self.asks_beyond(&loaded) {
                    loaded.settings.access.require_key = true;
                    loaded.notices.push(Notice::Locked { faults });
                } else {
                    loaded.notices.push(Notice::LastGoodServes { good, faults });
                }
                Ok(loaded)
            }
            None => {
                let mut loaded = self.resolve(Parsed::default())?;
                if self.asks_beyond(&loaded) {
                    loaded.settings.access.require_key = true;
                    loaded.notices.push(Notice::Locked { faults });
                } else {
                    loaded.notices.push(Notice::DefaultsServe { faults });
                }
                Ok(loaded)
            }
        }
    }

    /// Whether the faulty file may ask for a key where `loaded`, which serves instead, says
    /// nothing of one. A variable or a flag wins over the file in this as well.
    fn asks_beyond(&self, loaded: &Loaded) -> bool {
        file::may_ask_for_key(&self.file) && !loaded.says("access.require_key")
    }

    /// As [`load`](Self::load), for a program that will serve: keeps a file with faults aside,
    /// keeps a copy of a good one, and closes a file that holds a credential to other users.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn start(&self) -> Result<Loaded, LoadError> {
        let mut loaded = self.load()?;
        let failed = loaded.notices.iter().any(Notice::is_fallback);
        let secured = keep::secure(&self.file, &loaded);
        loaded.notices.extend(secured);
        if failed {
            loaded
                .notices
                .push(keep::aside(&self.file, jiff::Timestamp::now()));
        } else if let Some(good) = &self.good {
            loaded.notices.extend(keep::good(&self.file, good));
            if self.good_copy_of_missing().is_some() {
                loaded.notices.extend(keep::unused(good));
            }
        }
        Ok(loaded)
    }

    /// What a change of one member is made to: as [`load`](Self::load), but where the file was
    /// removed while it was in use, what it said is still in force.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_to_edit(&self) -> Result<Loaded, LoadError> {
        match (file::read(&self.file), self.good_in_use()) {
            (Content::Missing, Some((_, parsed))) => self.resolve(parsed),
            _ => self.load(),
        }
    }

    /// Loads with every fault and every unknown member named, and nothing in place of a faulty
    /// file: for `config --check` and for live reload.
    ///
    /// # Errors
    ///
    /// Everything that is wrong.
    pub fn load_exactly(&self) -> Result<Loaded, LoadError> {
        self.resolve(self.read_file().map_err(|faults| LoadError { faults })?)
    }

    /// The file's members; all its faults if it has one.
    fn read_file(&self) -> Result<Parsed, Vec<Fault>> {
        let parsed = match file::read(&self.file) {
            Content::Missing => Parsed::default(),
            // Without a good copy it has always been empty, or nobody minds.
            Content::Empty if self.read_good().is_none() => Parsed::default(),
            Content::Empty => {
                return Err(vec![Fault::Empty {
                    file: self.file.clone(),
                }]);
            }
            Content::Unreadable(fault) => return Err(vec![fault]),
            Content::Text(text) => file::parse(&self.file, &text),
        };
        sound(parsed)
    }

    /// The last good copy where the file itself is not there: somebody may miss what it said.
    pub fn good_copy_of_missing(&self) -> Option<PathBuf> {
        match file::read(&self.file) {
            Content::Missing => self.read_good().map(|(good, _)| good),
            Content::Empty | Content::Unreadable(_) | Content::Text(_) => None,
        }
    }

    /// The good copy, unless the last start found no file and so served without it.
    pub(super) fn good_in_use(&self) -> Option<(PathBuf, Parsed)> {
        self.read_good().filter(|(good, _)| !keep::is_unused(good))
    }

    /// The good copy, if it is there, says anything and is still good for this version.
    fn read_good(&self) -> Option<(PathBuf, Parsed)> {
        let good = self.good.as_ref()?;
        let Content::Text(text) = file::read(good) else {
            return None;
        };
        let parsed = sound(file::parse(good, &text)).ok()?;
        (!parsed.given.is_empty()).then(|| (good.clone(), parsed))
    }

    fn resolve(&self, file: Parsed) -> Result<Loaded, LoadError> {
        let Parsed {
            given,
            mut faults,
            mut notices,
        } = file;
        let mut layers = given;
        for parsed in [self.article(), self.environment(), self.command_line()] {
            layers.extend(parsed.given);
            faults.extend(parsed.faults);
            notices.extend(parsed.notices);
        }
        let mut settings = Settings::of(preset_of(&layers));
        let mut origins = origins_of(settings.preset);
        for Given {
            member,
            value,
            place,
        } in layers
        {
            match member.write(&mut settings, &value) {
                Ok(()) => {
                    origins.insert(member.path, Origin::Given(place));
                }
                Err(expected) => faults.push(misfit(member, &value, place, expected)),
            }
        }
        settings.health.cooldown_max = settings.health.cooldown_max.max(settings.health.cooldown);
        if settings.access.require_key && settings.access.keys.is_empty() {
            notices.push(Notice::NoKey);
        }
        faults.extend(contradictions(&settings));
        if faults.is_empty() {
            Ok(Loaded {
                settings,
                origins,
                notices,
                sources: self.clone(),
            })
        } else {
            Err(LoadError { faults })
        }
    }
}

impl Loaded {
    /// Loads again from the same sources, keeping a copy of a file that is good.
    ///
    /// # Errors
    ///
    /// Everything that is wrong; the settings in use then stay in use.
    pub fn reload(&self) -> Result<Self, LoadError> {
        let sources = &self.sources;
        let had_file = self
            .origins
            .values()
            .any(|origin| origin.is_in(&sources.file));
        if had_file && !sources.file.exists() {
            return Err(LoadError {
                faults: vec![Fault::Gone {
                    file: sources.file.clone(),
                }],
            });
        }
        // A file that comes to nothing is no mended one: an editor may be at it.
        let is_locked = |notice: &Notice| matches!(notice, Notice::Locked { .. });
        if self.notices.iter().any(is_locked)
            && matches!(file::read(&sources.file), Content::Missing | Content::Empty)
        {
            return Err(LoadError {
                faults: vec![Fault::Empty {
                    file: sources.file.clone(),
                }],
            });
        }
        let mut loaded = sources.load_exactly()?;
        let required = self.settings.access.require_key && self.says("access.require_key");
        if required && !loaded.says("access.require_key") {
            return Err(LoadError {
                faults: vec![Fault::KeyUnsaid {
                    file: sources.file.clone(),
                }],
            });
        }
        if let Some(good) = &sources.good {
            loaded.notices.extend(keep::good(&sources.file, good));
        }
        Ok(loaded)
    }

    /// Whether somebody set the member at `path`.
    fn says(&self, path: &str) -> bool {
        match self.origin(path) {
            Origin::Given(_) => true,
            Origin::Default | Origin::Preset => false,
        }
    }

    /// Where the member at `path` came from.
    pub fn origin(&self, path: &str) -> Origin {
        self.origins.get(path).cloned().unwrap_or(Origin::Default)
    }
}

impl Origin {
    /// Whether it came from environment or command line, so that the file cannot change it.
    pub fn is_fixed(&self) -> bool {
        match self {
            Self::Given(Place::Variable(_) | Place::Flag(_)) => true,
            Self::Default | Self::Preset | Self::Given(Place::File { .. }) => false,
        }
    }

    fn is_in(&self, path: &Path) -> bool {
        match self {
            Self::Given(Place::File { file, .. }) => file == path,
            Self::Default | Self::Preset | Self::Given(Place::Variable(_) | Place::Flag(_)) => {
                false
            }
        }
    }
}

/// Passes a file's members on only if each of them can be taken.
pub(super) fn sound(mut parsed: Parsed) -> Result<Parsed, Vec<Fault>> {
    let mut scratch = Settings::default();
    for Given {
        member,
        value,
        place,
    } in &parsed.given
    {
        if let Err(expected) = member.write(&mut scratch, value) {
            parsed
                .faults
                .push(misfit(member, value, place.clone(), expected));
        }
    }
    if parsed.faults.is_empty() {
        Ok(parsed)
    } else {
        Err(parsed.faults)
    }
}

fn misfit(member: &members::Member, value: &super::Value, place: Place, expected: String) -> Fault {
    let found = if member.kind.is_private() {
        "something else".to_owned()
    } else {
        value.to_string()
    };
    Fault::Value {
        place,
        member: member.path,
        found,
        expected,
    }
}

/// The preset of the topmost layer that names one.
fn preset_of(layers: &[Given]) -> Preset {
    let mut scratch = Settings::default();
    for Given { member, value, .. } in layers.iter().filter(|given| given.member.path == "preset") {
        // A preset that is none is a fault of its layer, and is reported there.
        let _ = member.write(&mut scratch, value);
    }
    scratch.preset
}

fn origins_of(preset: Preset) -> BTreeMap<&'static str, Origin> {
    let differs = MEMBERS
        .iter()
        .filter(|member| member.default(preset) != member.default(Preset::Balanced));
    differs
        .map(|member| (member.path, Origin::Preset))
        .collect()
}
