//! Messages as data: a code, and the values that its text contains.
//!
//! The program sends codes and values; what shows a message puts it into words. The texts of
//! all languages are in `ui/src/i18n/said.json`, under `said.<code>`, with `{name}` for a value.
//! The tray and the panel read the same file. Here it is read for English only: for the command
//! line and the log.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::memory::Size;
use crate::refusal::{Death, HowEnded, Outage};

/// The texts of every language.
const TEXTS: &str = include_str!("../../ui/src/i18n/said.json");

/// A message as it is sent: which one, and with which values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct Message {
    /// Which message; its texts are under `said.<code>`.
    pub code: String,
    /// The values in the text, by name.
    #[cfg_attr(feature = "bindings", ts(type = "{ [name: string]: string | number }"))]
    pub params: BTreeMap<String, Param>,
}

/// A value in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Param {
    /// A count.
    Number(u32),
    /// A name, an address, a size, or an error message of the system.
    Text(String),
}

/// Declares an enum of messages: each variant with its code and the values of its text.
///
/// Generates `message()`, which turns a variant into a [`Message`], and for tests `SHAPES`, the
/// code and the names of the values of each variant.
macro_rules! messages {
    (
        $(#[$outer:meta])*
        pub enum $name:ident {
            $( $(#[$doc:meta])* $variant:ident $({ $($field:ident: $type:ty),+ $(,)? })? => $code:literal ),+ $(,)?
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $(
                $(#[$doc])*
                $variant $({
                    $(
                        #[doc = concat!("`", stringify!($field), "` in the text.")]
                        $field: $type,
                    )+
                })?,
            )+
        }

        impl $name {
            /// The code and the names of the values of each message.
            #[cfg(test)]
            const SHAPES: &[(&str, &[&str])] =
                &[$(($code, &[$($(stringify!($field)),+)?])),+];

            /// Which message it is.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant $({ $($field: _),+ })? => $code),+
                }
            }

            /// The message as it is sent.
            pub fn message(self) -> Message {
                let code = self.code().to_owned();
                let params = match self {
                    $(Self::$variant $({ $($field),+ })? => {
                        [$($((stringify!($field).to_owned(), $field.into())),+)?].into()
                    })+
                };
                Message { code, params }
            }
        }
    };
}

messages! {
    /// Every message of the gateway and its tray.
    pub enum Fact {
        // Why the model server cannot be used.
        /// See [`Outage::NoneFound`].
        NoneFound => "none_found",
        /// See [`Outage::Refused`].
        ConnectionRefused => "connection_refused",
        /// See [`Outage::ConnectTimeout`].
        ConnectTimeout => "connect_timeout",
        /// See [`Outage::Reset`].
        ConnectionReset => "connection_reset",
        /// See [`Outage::ProbeTimeout`].
        ProbeTimeout => "probe_timeout",
        /// See [`Outage::ProbeFailed`].
        ProbeFailed => "probe_failed",
        /// See [`Outage::WrongBaseUrl`].
        WrongBaseUrl => "wrong_base_url",
        /// See [`Outage::Redirected`].
        Redirected => "redirected",
        /// See [`Outage::UntrustedCertificate`].
        UntrustedCertificate => "untrusted_certificate",
        /// See [`Outage::WrongCertificateName`].
        WrongCertificateName => "wrong_certificate_name",
        /// See [`Outage::NotHttps`].
        NotHttps => "not_https",
        /// See [`Outage::WantsHttps`].
        WantsHttps => "wants_https",
        /// See [`Outage::Garbled`].
        Garbled => "garbled",
        /// See [`Outage::Loop`].
        Loop => "loop",
        /// See [`Outage::Silent`].
        Silent => "silent",
        /// See [`Outage::ServerError`].
        ServerError => "server_error",
        /// See [`HowEnded::Exited`].
        ProcessExited { status: u8 } => "process_exited",
        /// See [`HowEnded::Killed`].
        ProcessKilled { signal: u8 } => "process_killed",
        /// See [`HowEnded::OutOfMemory`].
        ProcessOutOfMemory => "process_out_of_memory",
        /// See [`HowEnded::LikelyOutOfMemory`].
        ProcessLikelyOutOfMemory => "process_likely_out_of_memory",
        /// See [`HowEnded::Unknown`].
        ProcessGone => "process_gone",

        // Which reading of memory caused the level.
        /// Little RAM is available.
        RamLow { available: String, total: String, percent: u8 } => "ram_low",
        /// Little RAM is available, and programs wait for memory.
        RamLowAndStalled {
            available: String,
            total: String,
            percent: u8,
            stalled: String,
        } => "ram_low_and_stalled",
        /// Programs wait for memory.
        MemoryStalled { stalled: String } => "memory_stalled",
        /// Other programs took memory of the graphics card.
        VramLow {
            free: String,
            total: String,
            card: String,
            taken: String,
        } => "vram_low",

        // Notices: what a person should know and can act on.
        /// The model server's process ended.
        ModelServerDied => "model_server_died",
        /// Several servers were found on the usual ports.
        SeveralServers { list: String } => "several_servers",
        /// The model server processed far fewer tokens than it was sent.
        SilentTruncation => "silent_truncation",
        /// The file of settings has faults; the settings in use stay.
        ConfigurationInvalid { faults: String } => "configuration_invalid",
        /// The file of settings has faults and may require a key.
        ConfigurationLocked { faults: String } => "configuration_locked",
        /// Something else about the settings at start.
        Configuration { details: String } => "configuration",
        /// The configured upstream is the gateway itself.
        OwnAddress { base_url: String } => "own_address",
        /// New listen addresses could not be opened.
        ListenFailed { error: String } => "listen",
        /// Listen addresses were lost.
        ListenLost { list: String } => "listen_lost",
        /// This machine lacks an address family.
        OneFamily { address: String } => "one_family",
        /// Another program listens on one of the addresses.
        ForeignListener { address: String, program: String, own: String } => "foreign_listener",
        /// The same, where the system does not say which program.
        ForeignListenerUnknown { address: String, own: String } => "foreign_listener_unknown",
        /// A pause would not survive a restart.
        PauseNotSaved { file: String, error: String } => "pause_unkept",
        /// The end of a pause would not survive a restart.
        ResumeNotSaved { file: String, error: String } => "resume_unkept",

        // Why a gateway does not serve.
        /// Another program uses the port.
        PortTaken { address: String, program: String } => "port_taken",
        /// The same, where the system does not say which program.
        PortTakenUnknown { address: String } => "port_taken_unknown",
        /// The system does not permit this port.
        PortRefused { address: String } => "port_refused",
        /// Any other reason.
        StartFailed { error: String } => "start_failed",
        /// The gateway that the tray showed has ended.
        DaemonGone { reason: String } => "daemon_gone",

        // Why something that a person asked for was not done, or what to know about it.
        /// No gateway is serving.
        NotServing => "not_serving",
        /// The request to be cancelled has ended.
        RequestGone => "request_gone",
        /// The file or folder to be opened does not exist.
        OpenMissing { file: String } => "open_missing",
        /// The desktop has no program to open it.
        OpenNoProgram { file: String } => "open_no_program",
        /// The desktop could not open it.
        OpenFailed { file: String } => "open_failed",
        /// The text is too long for the clipboard.
        CopyTooLong => "copy_too_long",
        /// An error of the system, or a refusal of the gateway.
        Failed { error: String } => "failed",
        /// The settings file was missing and was written again from the last good copy.
        SettingsRestored { file: String, good: String } => "settings_restored",
    }
}

impl From<Outage> for Fact {
    fn from(outage: Outage) -> Self {
        match outage {
            Outage::NoneFound => Self::NoneFound,
            Outage::Refused => Self::ConnectionRefused,
            Outage::ConnectTimeout => Self::ConnectTimeout,
            Outage::Reset => Self::ConnectionReset,
            Outage::ProbeTimeout => Self::ProbeTimeout,
            Outage::ProbeFailed => Self::ProbeFailed,
            Outage::WrongBaseUrl => Self::WrongBaseUrl,
            Outage::Redirected => Self::Redirected,
            Outage::UntrustedCertificate => Self::UntrustedCertificate,
            Outage::WrongCertificateName => Self::WrongCertificateName,
            Outage::NotHttps => Self::NotHttps,
            Outage::WantsHttps => Self::WantsHttps,
            Outage::Garbled => Self::Garbled,
            Outage::Loop => Self::Loop,
            Outage::ProcessGone { death } => death.into(),
            Outage::Silent => Self::Silent,
            Outage::ServerError => Self::ServerError,
        }
    }
}

impl From<Death> for Fact {
    fn from(death: Death) -> Self {
        match death.how {
            HowEnded::Exited(status) => Self::ProcessExited { status },
            HowEnded::Killed(signal) => Self::ProcessKilled { signal },
            HowEnded::OutOfMemory => Self::ProcessOutOfMemory,
            HowEnded::LikelyOutOfMemory => Self::ProcessLikelyOutOfMemory,
            HowEnded::Unknown => Self::ProcessGone,
        }
    }
}

/// In English.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = format!("said.{}", self.code);
        // A newer gateway may send a code that this version has no text for.
        let Some(text) = ENGLISH.get(&key) else {
            return f.write_str(&self.code);
        };
        f.write_str(&filled(text, &self.params))
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clone().message().fmt(f)
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// `text` with each `{name}` replaced by the value of that name. A name without a value stays.
pub fn filled(text: &str, params: &BTreeMap<String, Param>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            filled.push('{');
            rest = after;
            continue;
        };
        match params.get(name) {
            Some(value) => filled.push_str(&value.to_string()),
            None => filled.push_str(&format!("{{{name}}}")),
        }
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

/// The English texts by key.
static ENGLISH: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let texts: HashMap<String, Text> = serde_json::from_str(TEXTS).unwrap_or_default();
    texts
        .into_iter()
        .map(|(key, text)| (key, text.en))
        .collect()
});

#[derive(Deserialize)]
struct Text {
    en: String,
    #[cfg(test)]
    #[serde(rename = "zh-CN")]
    zh_cn: String,
}

impl From<u8> for Param {
    fn from(number: u8) -> Self {
        Self::Number(number.into())
    }
}

impl From<String> for Param {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Size> for Param {
    fn from(size: Size) -> Self {
        Self::Text(size.to_string())
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
mod tests {
    use super::*;

    /// The names in a text, sorted.
    fn names(text: &str) -> Vec<&str> {
        let parts = text.split('{').skip(1);
        let mut names: Vec<&str> = parts.filter_map(|part| part.split('}').next()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn every_code_has_a_text_in_both_languages_with_its_values() {
        let texts: HashMap<String, Text> = serde_json::from_str(TEXTS).unwrap();
        for (code, params) in Fact::SHAPES {
            let mut params = params.to_vec();
            params.sort_unstable();
            let text = texts.get(&format!("said.{code}"));
            let text = text.unwrap_or_else(|| panic!("{code} has no text"));
            for language in [&text.en, &text.zh_cn] {
                assert_eq!(names(language), params, "{code}: {language}");
            }
        }
    }

    #[test]
    fn codes_are_unique() {
        let mut codes: Vec<&str> = Fact::SHAPES.iter().map(|(code, _)| *code).collect();
        codes.sort_unstable();
        let all = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), all);
    }

    #[test]
    fn a_message_is_sent_as_code_and_values_and_reads_as_a_sentence() {
        let message = Fact::ProcessExited { status: 1 }.message();
        let sent = serde_json::to_string(&message).unwrap();
        assert_eq!(sent, r#"{"code":"process_exited","params":{"status":1}}"#);
        let received: Message = serde_json::from_str(&sent).unwrap();
        assert_eq!(
            received.to_string(),
            "The model server’s process exited with status 1"
        );
    }

    #[test]
    fn braces_in_a_value_are_not_filled_again() {
        let params = [
            ("a".to_owned(), Param::Text("{b}".to_owned())),
            ("b".to_owned(), Param::Number(7)),
        ];
        assert_eq!(filled("{a} {b} {c} {", &params.into()), "{b} 7 {c} {");
    }

    #[test]
    fn an_unknown_code_is_shown_as_it_is() {
        let message = Message {
            code: "from_the_future".to_owned(),
            ..Message::default()
        };
        assert_eq!(message.to_string(), "from_the_future");
    }
}
