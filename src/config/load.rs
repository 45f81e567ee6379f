//! The layers, each over the one before: preset, the article's variables, file, environment,
//! flags.
//!
//! [`Sources::load`] only reads; [`Sources::start`] also keeps copies of the file. One rule for
//! faulty files: the last good settings stay in use, and a fault never widens access.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::{Fault, Location, Notice, joined};
use super::file::{self, Content, Given, Parsed};
use super::schema::{MEMBERS, Member, PREFIX};
use super::{BaseUrl, Limits, Preset, Settings, backup};

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file, which may not exist.
    pub file: PathBuf,
    /// Where the last good copy of the file is kept, if anywhere.
    pub good: Option<PathBuf>,
    /// Environment variables; those that set nothing are ignored.
    pub variables: Vec<(String, String)>,
    /// The command line.
    pub flags: Vec<Flag>,
}

/// A setting on the command line.
#[derive(Debug, Clone)]
pub struct Flag {
    /// The flag, such as `--listen`.
    pub name: &'static str,
    /// The path of the setting.
    pub member: &'static str,
    /// Its text; entries of a list are separated by commas.
    pub text: String,
}

/// Settings, and where each came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings to use.
    pub settings: Settings,
    /// Where each setting came from, by path; one that is missing here has its default.
    pub origins: BTreeMap<&'static str, Origin>,
    /// What a person should know.
    pub notices: Vec<Notice>,
    /// What they were loaded from, for the next time.
    pub sources: Sources,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// The preset, which differs from the default.
    Preset,
    /// Set by the user.
    Given(Location),
}

/// Why there are no settings to use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(faults, "\n"))]
pub struct LoadError {
    /// Everything that is wrong, not only the first.
    pub faults: Vec<Fault>,
}

/// The article's own variables, read below `ONESLOT_…`.
const ARTICLE: [(&str, &str); 3] = [
    ("LLM_BASE_URL", "upstream.base_url"),
    ("LLM_MODEL", "upstream.model"),
    ("LLM_N_CTX", "window.context"),
];

/// Variables that begin with the prefix and are not settings: two name paths, the others are for tests.
const NOT_SETTINGS: [&str; 5] = [
    "ONESLOT_CONFIG",
    "ONESLOT_STATE",
    "ONESLOT_FAULT",
    "ONESLOT_LIMITS",
    "ONESLOT_TEST_LIMITS",
];

const REQUIRE_KEY: &str = "access.require_key";

impl Sources {
    /// The usual path of the file on this system; `None` without a home directory.
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

    /// Loads for use: instead of a file with faults its last good copy is read, else the defaults
    /// are used, and a notice says so. Neither may be less strict than the file: where it may
    /// require a key and they do not mention one, every request is refused. Nothing is written.
    ///
    /// # Errors
    ///
    /// Faults of environment or flags, and settings that contradict each other.
    pub fn load(&self) -> Result<Loaded, LoadError> {
        let faults = match self.read_file() {
            Ok(parsed) => return self.resolve(parsed),
            Err(faults) => faults,
        };
        let (good, parsed) = self.read_good().unzip();
        let mut loaded = self.resolve(parsed.unwrap_or_default())?;
        let notice = if file::may_require_key(&self.file) && !loaded.mentions(REQUIRE_KEY) {
            loaded.settings.access.require_key = true;
            Notice::Locked { faults }
        } else {
            match good {
                Some(good) => Notice::LastGoodServes { good, faults },
                None => Notice::DefaultsServe { faults },
            }
        };
        loaded.notices.push(notice);
        Ok(loaded)
    }

    /// As [`load`](Self::load), for a program that will serve: copies a file with faults, keeps
    /// the last good one, and closes a file that holds a credential to other users.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn start(&self) -> Result<Loaded, LoadError> {
        let mut loaded = self.load()?;
        let closed = backup::close(&self.file, &loaded);
        loaded.notices.extend(closed);
        if loaded.is_fallback() {
            let aside = backup::keep_aside(&self.file, jiff::Timestamp::now());
            loaded.notices.push(aside);
        } else if let Some(good) = &self.good {
            let is_missing = matches!(file::read(&self.file), Content::Missing);
            loaded.notices.extend(if is_missing && good.exists() {
                Some(backup::retire(&self.file, good))
            } else {
                backup::keep_good(&self.file, good)
            });
        }
        Ok(loaded)
    }

    /// What an edit changes: as [`load`](Self::load), but where the file was removed while its
    /// settings are in use, those.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_to_edit(&self) -> Result<Loaded, LoadError> {
        match (file::read(&self.file), self.read_good()) {
            (Content::Missing, Some((_, parsed))) => self.resolve(parsed),
            _ => self.load(),
        }
    }

    /// Loads with every fault reported, and nothing instead of a faulty file: for
    /// `config --check` and for live reload.
    ///
    /// # Errors
    ///
    /// Everything that is wrong.
    pub fn load_exactly(&self) -> Result<Loaded, LoadError> {
        self.resolve(self.read_file().map_err(|faults| LoadError { faults })?)
    }

    /// The settings of the file; all its faults if it has one.
    fn read_file(&self) -> Result<Parsed, Vec<Fault>> {
        match file::read(&self.file) {
            Content::Missing => Ok(Parsed::default()),
            // Without a good copy it never had settings.
            Content::Empty if self.read_good().is_none() => Ok(Parsed::default()),
            Content::Empty => Err(vec![self.empty()]),
            Content::Unreadable(fault) => Err(vec![fault]),
            Content::Text(text) => file::parse(&self.file, &text).faultless(),
        }
    }

    /// The good copy, if it is there, says anything and is good for this version.
    pub(super) fn read_good(&self) -> Option<(PathBuf, Parsed)> {
        let good = self.good.as_ref()?;
        let Content::Text(text) = file::read(good) else {
            return None;
        };
        let parsed = file::parse(good, &text).faultless().ok()?;
        (!parsed.given.is_empty()).then(|| (good.clone(), parsed))
    }

    fn empty(&self) -> Fault {
        Fault::Empty {
            file: self.file.clone(),
        }
    }

    /// Puts the layers over each other.
    fn resolve(&self, file: Parsed) -> Result<Loaded, LoadError> {
        let mut layers = self.article();
        layers.extend(file);
        layers.extend(self.environment());
        let preset = preset_of(&layers.given);
        let mut tree = serde_json::to_value(Settings::of(preset)).unwrap_or_default();
        let mut origins = origins_of(preset);
        for Given {
            member,
            value,
            location,
        } in layers.given
        {
            member.put(&mut tree, value);
            origins.insert(&member.path, Origin::Given(location));
        }
        let (mut notices, mut faults) = (layers.notices, layers.faults);
        // Each value was checked by itself, so that they fit together.
        let mut settings = serde_json::from_value(tree).unwrap_or_else(|error| {
            faults.push(Fault::Unreadable {
                file: self.file.clone(),
                reason: error.to_string(),
            });
            Settings::of(preset)
        });
        let mut limits = Limits::of(preset, settings.health.cooldown).overridden();
        limits.cooldown_max = limits.cooldown_max.max(settings.health.cooldown);
        settings.limits = limits;
        if settings.access.require_key && settings.access.keys.is_empty() {
            notices.push(Notice::NoKey);
        }
        faults.extend(contradictions(&settings));
        if !faults.is_empty() {
            return Err(LoadError { faults });
        }
        Ok(Loaded {
            settings,
            origins,
            notices,
            sources: self.clone(),
        })
    }

    fn article(&self) -> Parsed {
        let mut parsed = Parsed::default();
        for (name, path) in ARTICLE {
            let is_it =
                |(given, text): &&(String, String)| given == name && !text.trim().is_empty();
            // Other programs read these too; an empty one is ignored.
            if let Some((_, text)) = self.variables.iter().find(is_it) {
                parsed.take_text(path, text, Location::Variable(name.to_owned()));
            }
        }
        parsed
    }

    fn environment(&self) -> Parsed {
        let mut parsed = Parsed::default();
        for (name, text) in &self.variables {
            if let Some(rest) = name.strip_prefix(PREFIX)
                && !NOT_SETTINGS.contains(&name.as_str())
            {
                let path = rest.to_ascii_lowercase().replace("__", ".");
                parsed.take_text(&path, text, Location::Variable(name.clone()));
            }
        }
        for flag in &self.flags {
            parsed.take_text(flag.member, &flag.text, Location::Flag(flag.name));
        }
        parsed
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
        let file = sources.file.clone();
        let fail = |fault| {
            Err(LoadError {
                faults: vec![fault],
            })
        };
        let had_file = self
            .origins
            .values()
            .any(|origin| origin.is_in(&sources.file));
        if had_file && !sources.file.exists() {
            return fail(Fault::Gone { file });
        }
        // A missing or empty file is no fix: an editor may be writing it.
        let is_locked = |notice: &Notice| matches!(notice, Notice::Locked { .. });
        let content = file::read(&sources.file);
        if self.notices.iter().any(is_locked)
            && matches!(content, Content::Missing | Content::Empty)
        {
            return fail(sources.empty());
        }
        let mut loaded = sources.load_exactly()?;
        let was_required = self.settings.access.require_key && self.mentions(REQUIRE_KEY);
        if was_required && !loaded.mentions(REQUIRE_KEY) {
            return fail(Fault::KeyUnsaid { file });
        }
        if let Some(good) = &sources.good {
            loaded
                .notices
                .extend(backup::keep_good(&sources.file, good));
        }
        Ok(loaded)
    }

    /// Whether the settings in use are not those of the file.
    pub fn is_fallback(&self) -> bool {
        self.notices
            .iter()
            .any(|notice| !notice.faults().is_empty())
    }

    /// Where the setting at `path` came from.
    pub fn origin(&self, path: &str) -> Origin {
        self.origins.get(path).cloned().unwrap_or(Origin::Default)
    }

    /// Whether the user set the setting at `path`.
    fn mentions(&self, path: &str) -> bool {
        matches!(self.origin(path), Origin::Given(_))
    }
}

impl Origin {
    /// Whether it came from environment or command line, so that the file cannot change it.
    pub fn is_fixed(&self) -> bool {
        match self {
            Self::Given(Location::Variable(_) | Location::Flag(_)) => true,
            Self::Default | Self::Preset | Self::Given(Location::File { .. }) => false,
        }
    }

    fn is_in(&self, path: &Path) -> bool {
        matches!(self, Self::Given(Location::File { file, .. }) if file == path)
    }
}

impl Parsed {
    fn extend(&mut self, over: Self) {
        self.given.extend(over.given);
        self.faults.extend(over.faults);
        self.notices.extend(over.notices);
    }
}

/// The preset of the last layer that names one.
fn preset_of(layers: &[Given]) -> Preset {
    let given = layers.iter().rfind(|given| given.member.path == "preset");
    let value = given.map_or(Value::Null, |given| given.value.clone());
    serde_json::from_value(value).unwrap_or_default()
}

fn origins_of(preset: Preset) -> BTreeMap<&'static str, Origin> {
    let is_set = |member: &&Member| member.default(preset) != member.default(Preset::Balanced);
    let members = MEMBERS.iter().filter(is_set);
    members
        .map(|member| (member.path.as_str(), Origin::Preset))
        .collect()
}

/// What is wrong with settings together.
fn contradictions(settings: &Settings) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let BaseUrl::At(root) = &settings.upstream.base_url
        && root.points_at(&settings.listen)
    {
        faults.push(Fault::OwnAddress {
            base_url: root.to_string(),
        });
    }
    let access = &settings.access;
    let is_guarded = access.require_key && !access.keys.is_empty();
    let is_open = |address: &&std::net::SocketAddr| !address.ip().to_canonical().is_loopback();
    if let Some(address) = settings.listen.iter().find(is_open).filter(|_| !is_guarded) {
        faults.push(Fault::OpenWithoutKey { address: *address });
    }
    faults
}
