//! Where the model server is: `auto`, or the root of a URL.
//!
//! How a root is read is the upstream's business ([`Root`]); here it is only chosen.

use std::fmt;

use crate::upstream::{BaseUrlError, Root};

/// Where the model server is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BaseUrl {
    /// Looked for on the usual ports.
    #[default]
    Auto,
    /// This server.
    At(Root),
}

impl BaseUrl {
    /// Reads `auto` or a URL with or without `/v1`.
    ///
    /// # Errors
    ///
    /// What is wrong with the URL; it never repeats the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        if text.trim().eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        Root::parse(text).map(Self::At)
    }

    /// The article's own base URL, `http://127.0.0.1:11434/v1`.
    pub(super) fn article() -> Self {
        Self::parse("http://127.0.0.1:11434/v1").unwrap_or_default()
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::At(root) => root.fmt(f),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn auto_and_urls_are_told_apart() {
        assert_eq!(BaseUrl::parse(" Auto ").unwrap(), BaseUrl::Auto);
        let url = BaseUrl::parse("http://127.0.0.1:8080/v1/").unwrap();
        assert_eq!(url.to_string(), "http://127.0.0.1:8080");
        assert!(BaseUrl::parse("").is_err(), "nothing is not auto");
    }

    #[test]
    fn the_article_base_url_is_a_root() {
        assert_eq!(
            BaseUrl::article().to_string(),
            "http://127.0.0.1:11434",
            "the article's default"
        );
    }
}
