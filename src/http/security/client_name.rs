//! The name of the calling app, for queue, record and status.
//!
//! A name, never a proof: nothing is allowed or refused by it.

use http::HeaderValue;

/// Longest name in bytes.
const LONGEST: usize = 64;

/// The name of a client that gives none.
pub const UNKNOWN: &str = "unknown";

/// Products that every browser and every app built on one claims to be.
const BROWSER_WORDS: [&str; 11] = [
    "Mozilla",
    "AppleWebKit",
    "Chrome",
    "Chromium",
    "Safari",
    "Gecko",
    "Firefox",
    "Version",
    "Edg",
    "Electron",
    "Mobile",
];

/// The name from the `/app/{name}` prefix, else of the key, else from the User-Agent.
pub fn name(prefix: Option<&str>, key: Option<&str>, user_agent: Option<&HeaderValue>) -> String {
    prefix
        .or(key)
        .map(clean)
        .or_else(|| user_agent.and_then(product))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The product that a User-Agent names first, or behind a browser's words.
fn product(user_agent: &HeaderValue) -> Option<String> {
    let text = user_agent.to_str().ok()?;
    let first = products(text).next()?;
    let (product, version) = first.split_once('/').unwrap_or((first, ""));
    Some(match (product, version) {
        ("OpenAI" | "AsyncOpenAI", "Python") => "openai-python".to_owned(),
        ("OpenAI" | "AsyncOpenAI", "JS") => "openai-node".to_owned(),
        ("Anthropic" | "AsyncAnthropic", "Python") => "anthropic-python".to_owned(),
        ("Anthropic", "JS") => "anthropic-node".to_owned(),
        ("Mozilla", _) => behind_browser(text),
        _ => clean(product),
    })
}

/// An app built on a browser names one product of its own; a plain browser none.
fn behind_browser(text: &str) -> String {
    products(text)
        .map(|product| product.split_once('/').map_or(product, |(name, _)| name))
        .find(|name| !BROWSER_WORDS.contains(name))
        .map_or_else(|| "browser".to_owned(), clean)
}

/// The products of a User-Agent, without its comments.
fn products(text: &str) -> impl Iterator<Item = &str> {
    text.split('(')
        .enumerate()
        .map(|(at, part)| match (at, part.split_once(')')) {
            (0, _) => part,
            (_, Some((_, after))) => after,
            (_, None) => "",
        })
        .flat_map(str::split_ascii_whitespace)
}

fn clean(name: &str) -> String {
    name.bytes()
        .take(LONGEST)
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"._+-".contains(&byte) {
                char::from(byte)
            } else {
                '-'
            }
        })
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn of_agent(text: &str) -> String {
        name(None, None, Some(&HeaderValue::try_from(text).unwrap()))
    }

    #[test]
    fn a_prefix_goes_before_a_key_and_a_key_before_the_agent() {
        let agent = HeaderValue::from_static("curl/8.5.0");
        assert_eq!(name(Some("zed"), Some("laptop"), Some(&agent)), "zed");
        assert_eq!(name(None, Some("laptop"), Some(&agent)), "laptop");
        assert_eq!(name(None, None, Some(&agent)), "curl");
        assert_eq!(name(None, None, None), UNKNOWN);
    }

    #[test]
    fn agents_are_named_by_their_product() {
        let cases = [
            ("OpenAI/Python 1.51.0", "openai-python"),
            ("AsyncOpenAI/Python 1.51.0", "openai-python"),
            ("OpenAI/JS 6.1.0", "openai-node"),
            ("Anthropic/JS 0.30.0", "anthropic-node"),
            (
                "ollama-python/0.4.7 (arm64 darwin) Python/3.12.4",
                "ollama-python",
            ),
            ("Zed/0.160.7 (linux; x86_64)", "Zed"),
            ("node", "node"),
            ("curl/8.5.0", "curl"),
            ("Go-http-client/1.1", "Go-http-client"),
            ("python-requests/2.31", "python-requests"),
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) obsidian/1.5.3 Chrome/120.0 Electron/28.2.3 Safari/537.36",
                "obsidian",
            ),
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
                "browser",
            ),
            ("(only a comment)", UNKNOWN),
            ("", UNKNOWN),
            ("bad<script>/1", "bad-script-"),
        ];
        for (agent, expected) in cases {
            assert_eq!(of_agent(agent), expected, "{agent:?}");
        }
    }

    #[test]
    fn a_name_is_short_and_printable() {
        assert_eq!(of_agent(&"x".repeat(500)).len(), LONGEST);
        let odd = HeaderValue::from_bytes(b"caf\xc3\xa9/1").unwrap();
        assert_eq!(
            name(None, None, Some(&odd)),
            UNKNOWN,
            "what is not ASCII is no name"
        );
    }
}
