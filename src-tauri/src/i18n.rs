//! The words of the tray, from the table that the panel has too.
//!
//! A value of `ui/src/i18n/tray.json` is a text with `{places}`, or one text per plural form,
//! chosen by the place `n`. Not here: what is said when ([`crate::tray_face`]).

use std::collections::HashMap;

use oneslot::telemetry::message::{self, Message};
use serde::{Deserialize, Serialize};

/// The table itself; the panel's build reads the same file.
const TABLE: &str = include_str!("../../ui/src/i18n/tray.json");
/// The texts of messages.
const SAID: &str = include_str!("../../ui/src/i18n/said.json");

/// A language that there are words in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub enum Language {
    /// English.
    #[default]
    #[serde(rename = "en")]
    English,
    /// Simplified Chinese.
    #[serde(rename = "zh-CN")]
    Chinese,
}

/// What a person wants to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub enum LanguageWish {
    /// The system's, where there are words in it.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// English.
    #[serde(rename = "en")]
    English,
    /// Simplified Chinese.
    #[serde(rename = "zh-CN")]
    Chinese,
}

/// All words, in every language.
#[derive(Debug)]
pub struct Words {
    own: HashMap<String, Entry>,
    said: HashMap<String, Entry>,
}

/// Why the table could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the table of words")]
pub struct WordsError(#[source] serde_json::Error);

#[derive(Debug, Deserialize)]
struct Entry {
    en: Text,
    #[serde(rename = "zh-CN")]
    zh_cn: Text,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Text {
    One(String),
    Plural { one: String, other: String },
}

impl Words {
    /// The built-in table.
    ///
    /// # Errors
    /// The table is not what [`Words`] expects: a fault of the build, which a test finds.
    pub fn built_in() -> Result<Self, WordsError> {
        Ok(Self {
            own: serde_json::from_str(TABLE).map_err(WordsError)?,
            said: serde_json::from_str(SAID).map_err(WordsError)?,
        })
    }

    /// A message in this language; its code where this version has no text for it.
    pub fn message(&self, language: Language, message: &Message) -> String {
        let key = format!("said.{}", message.code);
        match self.said.get(&key).map(|entry| entry.text(language)) {
            Some(Text::One(text)) => message::filled(text, &message.params),
            Some(Text::Plural { .. }) | None => message.code.clone(),
        }
    }

    /// The words for `key`, with `places` put in. A key that is nowhere is shown as it is: better
    /// an odd row than none.
    pub fn say(&self, language: Language, key: &str, places: &[(&str, &str)]) -> String {
        let Some(entry) = self.own.get(key) else {
            return key.to_owned();
        };
        let text = entry.text(language);
        let n = places.iter().find(|(name, _)| *name == "n");
        let said = match text {
            Text::One(text) => text,
            Text::Plural { one, .. } if n.is_some_and(|(_, n)| *n == "1") => one,
            Text::Plural { other, .. } => other,
        };
        filled(said, places)
    }
}

impl Entry {
    fn text(&self, language: Language) -> &Text {
        match language {
            Language::English => &self.en,
            Language::Chinese => &self.zh_cn,
        }
    }
}

fn filled(text: &str, places: &[(&str, &str)]) -> String {
    let mut said = text.to_owned();
    for (name, value) in places {
        said = said.replace(&format!("{{{name}}}"), value);
    }
    said
}

impl LanguageWish {
    /// The language for this wish on a system that speaks `locale`, such as `zh_CN.UTF-8`.
    pub fn language(self, locale: Option<&str>) -> Language {
        match self {
            Self::English => Language::English,
            Self::Chinese => Language::Chinese,
            Self::Auto if locale.is_some_and(|locale| locale.starts_with("zh")) => {
                Language::Chinese
            }
            Self::Auto => Language::English,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use oneslot::telemetry::message::Fact;

    use super::*;

    #[test]
    fn a_place_is_filled_and_a_number_chooses_the_form() {
        let words = Words::built_in().unwrap();
        let say = |language, n| words.say(language, "face.busy.many", &[("n", n)]);
        assert_eq!(say(Language::English, "1"), "Answering 1 request");
        assert_eq!(say(Language::English, "2"), "Answering 2 requests");
        assert_eq!(say(Language::Chinese, "2"), "正在回答 2 个请求");
    }

    #[test]
    fn a_message_is_put_into_words_with_its_values() {
        let words = Words::built_in().unwrap();
        let message = Fact::RamLow {
            available: "412 MiB".to_owned(),
            total: "15.6 GiB".to_owned(),
            percent: 2,
        };
        assert_eq!(
            words.message(Language::Chinese, &message.message()),
            "可用内存 412 MiB / 15.6 GiB（2%）"
        );
    }

    #[test]
    fn the_wish_wins_over_the_system_and_others_read_english() {
        let chosen = |wish: LanguageWish, locale| wish.language(locale);
        assert_eq!(
            chosen(LanguageWish::Auto, Some("zh-Hans-CN")),
            Language::Chinese
        );
        assert_eq!(
            chosen(LanguageWish::Auto, Some("de_DE.UTF-8")),
            Language::English
        );
        assert_eq!(chosen(LanguageWish::Auto, None), Language::English);
        assert_eq!(
            chosen(LanguageWish::Chinese, Some("en_US")),
            Language::Chinese
        );
    }
}
