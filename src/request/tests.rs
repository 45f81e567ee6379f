//! Parsing and editing of chat bodies, against `serde_json` and real clients' bodies.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::value::RawValue;

use super::parse::MAX_DEPTH;
use super::{CallId, Chat, Edit, Role};
use crate::refusal::Refusal;

fn read(body: &str) -> Chat {
    match Chat::read(Bytes::copy_from_slice(body.as_bytes())) {
        Ok(chat) => chat,
        Err(refusal) => panic!("{body} should be read, got {refusal:?}"),
    }
}

fn refused(body: &[u8]) -> (String, Option<&'static str>) {
    match Chat::read(Bytes::copy_from_slice(body)) {
        Err(Refusal::BadRequest { message, param }) => (message, param),
        other => panic!("should be a bad request: {other:?}"),
    }
}

fn edited(body: &str, edit: &Edit) -> String {
    String::from_utf8(read(body).edited(edit).to_vec()).unwrap()
}

fn serde_accepts(text: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(text).is_ok()
}

// --- syntax ---

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,3})?",
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        "\"(\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4}|[a-z世😀])*\"",
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let blank = "[ \t\r\n]{0,2}";
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..5), blank).prop_map(|(list, blank)| format!(
                "[{blank}{}{blank}]",
                list.join(&format!("{blank},{blank}"))
            )),
            (
                prop::collection::vec(("[a-z\\\\]{0,3}", inner), 0..5),
                blank
            )
                .prop_map(|(list, blank)| {
                    let members: Vec<String> = list
                        .into_iter()
                        .map(|(key, value)| {
                            format!("{}{blank}:{blank}{value}", serde_json::Value::from(key))
                        })
                        .collect();
                    format!("{{{blank}{}}}{blank}", members.join(","))
                }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_json_in_an_unknown_member_is_accepted(text in json()) {
        let chat = read(&format!(r#"{{"x":{text},"messages":[],"y":{text}}}"#));
        prop_assert!(chat.messages().is_empty(), "parsed: {}", text);
    }

    #[test]
    fn a_damaged_body_is_accepted_only_if_it_is_json(
        text in json(),
        place in any::<prop::sample::Index>(),
        damage in prop_oneof![
            any::<u8>(),
            prop::sample::select(b"{}[]\",:\\u0-+.eE1tfn \n\t\x00\x1f\x7f\xff".to_vec()),
        ],
        how in 0..4,
    ) {
        let mut bytes = format!(r#"{{"messages":[{{"role":"user","content":{text}}}]}}"#).into_bytes();
        let at = place.index(bytes.len());
        match how {
            0 => bytes[at] = damage,
            1 => bytes.insert(at, damage),
            2 => { bytes.remove(at); }
            _ => bytes.truncate(at),
        }
        let accepted = Chat::read(Bytes::from(bytes.clone())).is_ok();
        prop_assert!(!accepted || serde_accepts(&bytes), "{:?}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Chat::read(Bytes::from(bytes));
    }

    #[test]
    fn measured_text_is_the_decoded_text(text in any::<String>(), ascii in any::<bool>()) {
        let mut spelled = serde_json::Value::from(text.as_str()).to_string();
        if ascii {
            spelled = spelled
                .chars()
                .map(|letter| {
                    let mut units = [0; 2];
                    if letter.is_ascii() { return letter.to_string(); }
                    letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
                })
                .collect();
        }
        let chat = read(&format!(r#"{{"messages":[{{"role":"user","content":{spelled}}}]}}"#));
        let size = chat.messages()[0].size();
        prop_assert_eq!(size.bytes, text.len() as u64, "decoded bytes");
        prop_assert_eq!(size.scalars, text.chars().count() as u64, "decoded scalars");
    }
}

#[test]
fn two_hundred_thousand_levels_are_refused() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(200_000), close.repeat(200_000));
        let body = format!(r#"{{"messages":[{{"role":"user","content":{deep}}}]}}"#);
        for body in [deep.as_str(), &body, &open.repeat(200_000)] {
            assert!(
                refused(body.as_bytes()).0.contains("128"),
                "the limit is named"
            );
        }
    }
}

#[test]
fn depth_128_is_accepted_and_129_refused() {
    // Two levels around the value; brackets inside a string do not count.
    let body = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"messages":[{{"content":"[[\"{{","y":{open}{close}}}]}}"#)
    };
    read(&body(MAX_DEPTH - 3));
    refused(body(MAX_DEPTH - 2).as_bytes());
}

#[test]
fn numbers_and_lone_surrogates_are_not_interpreted() {
    let body = r#"{"a":1e999,"b":-0,"c":12345678901234567890123456789,"d":1.0,"e":"\ud800","\udfff":null,"model":"x\ud800","messages":[{"\ud800":"\udfff"}]}"#;
    assert_eq!(edited(body, &Edit::default()), body);
}

// --- what is refused ---

#[test]
fn an_empty_body_is_called_empty() {
    for body in [&b""[..], b" \r\n"] {
        assert!(refused(body).0.starts_with("The body is empty"));
    }
}

#[test]
fn a_body_that_is_not_one_json_object_is_refused() {
    for body in [
        &b"[]"[..],
        b"null",
        b"\"x\"",
        b"{\"messages\":[]} x",
        b"{\"messages\":[}",
        b"\xff{}",
    ] {
        assert_eq!(refused(body).1, None, "no single member is at fault");
    }
}

#[test]
fn a_repeated_member_is_refused_however_it_is_escaped() {
    for (name, value) in [
        ("model", "\"a\""),
        ("messages", "[]"),
        ("stream", "true"),
        ("max_tokens", "1"),
        ("max_completion_tokens", "1"),
    ] {
        let escaped = format!("\\u{:04x}{}", u32::from(name.as_bytes()[0]), &name[1..]);
        for second in [name, escaped.as_str()] {
            let extra = if name == "messages" {
                ""
            } else {
                ",\"messages\":[]"
            };
            let body = format!("{{\"{name}\":{value},\"{second}\":{value}{extra}}}");
            let (message, param) = refused(body.as_bytes());
            assert_eq!(param, Some(name), "the member is named: {message}");
        }
    }
}

#[test]
fn an_unknown_member_given_twice_passes_unchanged() {
    let body = r#"{"seed":1,"seed":2,"messages":[{"role":"user","content":"x"}]}"#;
    assert_eq!(
        edited(body, &Edit::default()),
        body,
        "the gateway does not act on it"
    );
}

#[test]
fn messages_must_be_an_array_of_objects() {
    for body in [
        r#"{}"#,
        r#"{"messages":null}"#,
        r#"{"messages":"x"}"#,
        r#"{"messages":{}}"#,
        r#"{"messages":["x"]}"#,
        r#"{"messages":[{},1]}"#,
    ] {
        assert_eq!(refused(body.as_bytes()).1, Some("messages"), "{body}");
    }
}

#[test]
fn a_limit_of_the_wrong_type_is_refused() {
    for value in [
        "-2", "1.5", "256.05", "1e-3", "1e999", "\"256\"", "true", "[]", "{}",
    ] {
        for name in ["max_tokens", "max_completion_tokens"] {
            let body = format!(r#"{{"messages":[],"{name}":{value}}}"#);
            assert_eq!(refused(body.as_bytes()).1, Some(name), "{body}");
        }
    }
}

#[test]
fn stream_and_model_of_the_wrong_type_are_refused() {
    for value in ["1", "\"true\"", "[]", "{}"] {
        assert_eq!(
            refused(format!(r#"{{"messages":[],"stream":{value}}}"#).as_bytes()).1,
            Some("stream")
        );
    }
    for value in ["1", "true", "[]", "{}"] {
        assert_eq!(
            refused(format!(r#"{{"messages":[],"model":{value}}}"#).as_bytes()).1,
            Some("model")
        );
    }
}

// --- what is read ---

#[test]
fn limits_are_whole_numbers_in_any_spelling() {
    for (members, asked) in [
        ("", None),
        (r#","max_tokens":null"#, None),
        (r#","max_tokens":-1"#, None),
        (r#","max_tokens":0"#, Some(0)),
        (r#","max_tokens":256"#, Some(256)),
        (r#","max_tokens":16.0"#, Some(16)),
        (r#","max_tokens":16.000"#, Some(16)),
        (r#","max_tokens":1e+05"#, Some(100_000)),
        (r#","max_tokens":1E3"#, Some(1000)),
        (r#","max_tokens":-0"#, Some(0)),
        (r#","max_tokens":-1.0"#, None),
        (r#","max_completion_tokens":300"#, Some(300)),
        (
            r#","max_tokens":256,"max_completion_tokens":300"#,
            Some(256),
        ),
        (r#","max_tokens":-1,"max_completion_tokens":300"#, Some(300)),
        (
            r#","max_tokens":123456789012345678901234567890"#,
            Some(u64::MAX),
        ),
    ] {
        assert_eq!(
            read(&format!(r#"{{"messages":[]{members}}}"#)).asked(),
            asked,
            "{members}"
        );
    }
}

#[test]
fn switches_and_names_are_read() {
    let chat = read(
        r#"{"model":"a\u0062","stream":true,"stream_options":{"include_usage":true},"tools":[{}],"response_format":{"type":"json_schema"},"messages":[]}"#,
    );
    assert_eq!(chat.model(), Some("ab"), "escapes are decoded");
    assert!(
        chat.is_stream() && chat.wants_usage() && chat.has_tools() && chat.wants_schema(),
        "all asked for"
    );
    let chat = read(
        r#"{"model":"","stream":null,"stream_options":null,"tools":[],"functions":null,"response_format":{"type":"text"},"messages":[]}"#,
    );
    assert_eq!(chat.model(), None, "an empty name names none");
    assert!(
        !chat.is_stream() && !chat.wants_usage() && !chat.has_tools() && !chat.wants_schema(),
        "none asked for"
    );
}

#[test]
fn roles_and_calls_are_read() {
    let chat = read(
        r#"{"messages":[{"role":"developer","content":"d"},{"role":"user2","content":"x"},{"content":"no role"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}},{"id":"c2"},7]},
        {"role":"tool","tool_call_id":"c1","content":"r"},{"role":"assistant","function_call":{"name":"f"}},
        {"role":"function","name":"f","content":"r"},{"role":"assistant","content":"a","tool_calls":[],"function_call":null}]}"#,
    );
    let roles: Vec<Role> = chat
        .messages()
        .iter()
        .map(|message| message.role())
        .collect();
    use Role::{Assistant, Other, System, Tool};
    assert_eq!(
        roles,
        [
            System, Other, Other, Assistant, Tool, Assistant, Tool, Assistant
        ],
        "as sent"
    );
    let named = |id: &str| CallId::Named(id.to_owned());
    assert_eq!(
        chat.messages()[3].calls(),
        [named("c1"), named("c2"), CallId::Unnamed],
        "all calls"
    );
    assert_eq!(
        chat.messages()[4].answers(),
        Some(&named("c1")),
        "the result names its call"
    );
    assert_eq!(
        chat.messages()[5].calls(),
        [CallId::Unnamed],
        "the legacy call has no id"
    );
    assert_eq!(
        chat.messages()[6].answers(),
        Some(&CallId::Unnamed),
        "nor has its result"
    );
    assert!(
        chat.messages()[7].calls().is_empty(),
        "empty and null are no calls"
    );
}

#[test]
fn content_of_any_shape_is_measured_and_never_panics() {
    // Reports of arrays counted by their number of parts, and of odd shapes that crashed.
    let long = "x".repeat(20_000);
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"{long}"}},{{"type":"image_url","image_url":{{"url":"data:image/png;base64,AAAA"}}}}]}}]}}"#
    );
    let size = read(&body).messages()[0].size();
    assert_eq!(
        (size.bytes, size.media),
        (20_000, 1),
        "text by its text, an image as one"
    );
    for content in [
        r#""content":["bare"]"#,
        r#""content":null"#,
        r#""name":null"#,
        r#""content":5"#,
        r#""content":{"a":{"b":["c"]}}"#,
        r#""content":[[["x"]]]"#,
        r#""content":[null,1,{"type":7}]"#,
    ] {
        let chat = read(&format!(r#"{{"messages":[{{"role":"user2",{content}}}]}}"#));
        assert_eq!(chat.messages().len(), 1, "{content} is forwarded");
    }
}

#[test]
fn attachments_are_never_measured_by_their_base64() {
    let blob = "A".repeat(1_000_000);
    for part in [
        format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{blob}"}}}}"#),
        format!(r#"{{"image_url":{{"url":"data:image\/png;base64,{blob}"}},"type":"image_url"}}"#),
        format!(r#"{{"type":"input_audio","input_audio":{{"data":"{blob}","format":"wav"}}}}"#),
        format!(r#"{{"type":"file","file":{{"file_data":"{blob}"}}}}"#),
        format!(r#"{{"type":"input_image","image_url":"data:image/png;base64,{blob}"}}"#),
        format!(r#"{{"type":"hologram","at":"data:x/y;base64,{blob}"}}"#),
    ] {
        let size = read(&format!(
            r#"{{"messages":[{{"role":"user","content":[{part}]}}]}}"#
        ))
        .messages()[0]
            .size();
        assert_eq!(size.media, 1, "one attachment: {}", &part[..40]);
        assert!(size.bytes < 100, "its bytes are no text");
    }
}

#[test]
fn tools_functions_and_schemas_count() {
    let schema = format!(r#"{{"description":"{}"}}"#, "s".repeat(400));
    for member in [
        format!(r#""tools":[{schema}]"#),
        format!(r#""functions":[{schema}]"#),
        format!(r#""response_format":{{"type":"json_schema","json_schema":{schema}}}"#),
    ] {
        let chat = read(&format!(r#"{{"messages":[],{member}}}"#));
        assert!(chat.outside().bytes > 400, "{member}");
    }
}

// --- edits ---

const BODY: &str = r#"{ "seed": 12345678901234567890123, "temperature": 1.0, "stop": null,
  "messages" : [ {"role":"system","content":"s"} , {"role":"user","content":"a"},
    {"role":"assistant","content":"b","extra":1.50e+2},	{"role":"user","content":"c"} ],
  "max_tokens": 4096, "chat_template_kwargs":{"enable_thinking":false},"options":{"num_ctx":8192},"keep_alive":-1,"top_p":1,"top_p":1.0 }
"#;

#[test]
fn an_edit_that_changes_nothing_gives_back_the_same_bytes() {
    let raw = Bytes::copy_from_slice(BODY.as_bytes());
    let chat = Chat::read(raw.clone()).unwrap();
    for edit in [
        Edit::default(),
        Edit {
            keep: Some(vec![0, 1, 2, 3]),
            ..Edit::default()
        },
        Edit {
            limit: Some(4096),
            ..Edit::default()
        },
        Edit {
            also_max_tokens: true,
            ..Edit::default()
        },
    ] {
        assert_eq!(
            chat.edited(&edit).as_ptr(),
            raw.as_ptr(),
            "not even a copy: {edit:?}"
        );
    }
}

#[test]
fn an_edit_leaves_every_byte_it_does_not_name() {
    let edit = Edit {
        keep: Some(vec![0, 3]),
        limit: Some(512),
        ..Edit::default()
    };
    let expected = BODY
        .replace(" , {\"role\":\"user\",\"content\":\"a\"},\n    {\"role\":\"assistant\",\"content\":\"b\",\"extra\":1.50e+2}", "")
        .replace("4096", "512");
    assert_eq!(
        edited(BODY, &edit),
        expected,
        "big integers, 1.0, null, order, white space stay"
    );
}

#[test]
fn messages_may_be_sent_in_another_order() {
    let body = r#"{"messages":[{"role":"user","content":"a"}, {"role":"system","content":"s"}]}"#;
    let edit = Edit {
        keep: Some(vec![1, 0]),
        ..Edit::default()
    };
    assert_eq!(
        edited(body, &edit),
        r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}]}"#
    );
}

#[test]
fn a_limit_is_written_where_the_client_put_it() {
    let cases = [
        ("{\"messages\":[]}", "{\"messages\":[],\"max_tokens\":7}"),
        (
            "{\"messages\":[],\"max_tokens\":null }",
            "{\"messages\":[],\"max_tokens\":7 }",
        ),
        (
            "{\"messages\":[],\"max_tokens\":-1}",
            "{\"messages\":[],\"max_tokens\":7}",
        ),
        (
            "{\"max_completion_tokens\":99,\"messages\":[]}",
            "{\"max_completion_tokens\":7,\"messages\":[]}",
        ),
        (
            "{\"max_completion_tokens\":null,\"messages\":[]}",
            "{\"max_completion_tokens\":7,\"messages\":[]}",
        ),
        (
            "{\"max_tokens\":50,\"max_completion_tokens\":99,\"messages\":[]}",
            "{\"max_tokens\":7,\"max_completion_tokens\":7,\"messages\":[]}",
        ),
        (
            "{\"max_tokens\":null,\"max_completion_tokens\":99,\"messages\":[]}",
            "{\"max_tokens\":null,\"max_completion_tokens\":7,\"messages\":[]}",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(
            edited(
                body,
                &Edit {
                    limit: Some(7),
                    ..Edit::default()
                }
            ),
            expected
        );
    }
}

#[test]
fn an_upstream_that_ignores_the_newer_limit_gets_the_older_as_well() {
    let older = |limit| Edit {
        limit,
        also_max_tokens: true,
        ..Edit::default()
    };
    let newer = "{\"max_completion_tokens\":99,\"messages\":[]}";
    assert_eq!(
        edited(newer, &older(None)),
        "{\"max_completion_tokens\":99,\"messages\":[],\"max_tokens\":99}"
    );
    assert_eq!(
        edited(newer, &older(Some(7))),
        "{\"max_completion_tokens\":7,\"messages\":[],\"max_tokens\":7}"
    );
    let both = "{\"max_completion_tokens\":99,\"max_tokens\":500,\"messages\":[]}";
    assert_eq!(
        edited(both, &older(None)),
        "{\"max_completion_tokens\":99,\"max_tokens\":99,\"messages\":[]}"
    );
    assert_eq!(
        edited(both, &older(Some(7))),
        "{\"max_completion_tokens\":7,\"max_tokens\":7,\"messages\":[]}"
    );
    let none = "{\"max_tokens\":500,\"messages\":[]}";
    assert_eq!(
        edited(none, &older(None)),
        none,
        "the older one alone is enough"
    );
}

#[test]
fn a_model_is_put_in_only_where_none_is_named() {
    let edit = Edit {
        model: Some("q\"1".to_owned()),
        limit: Some(7),
        ..Edit::default()
    };
    for (body, expected) in [
        (
            "{\"model\":\"a\",\"messages\":[]}",
            "{\"model\":\"a\",\"messages\":[],\"max_tokens\":7}",
        ),
        (
            "{\"model\":null,\"messages\":[]}",
            "{\"model\":\"q\\\"1\",\"messages\":[],\"max_tokens\":7}",
        ),
        (
            "{\"model\": \"\",\"messages\":[]}",
            "{\"model\": \"q\\\"1\",\"messages\":[],\"max_tokens\":7}",
        ),
        (
            "{\"messages\":[]}\n",
            "{\"messages\":[],\"max_tokens\":7,\"model\":\"q\\\"1\"}\n",
        ),
    ] {
        assert_eq!(edited(body, &edit), expected);
    }
}

proptest! {
    #[test]
    fn an_edited_body_differs_in_the_edited_members_only(
        extra in json(),
        keep in prop::sample::subsequence(vec![0_usize, 1, 2, 3, 4], 1..=5),
        limit in prop::option::of(0_u64..10_000),
    ) {
        let list: Vec<String> = (0..5).map(|n| format!(r#"{{"role":"user","content":{extra},"n":{n}}}"#)).collect();
        let body = format!(r#"{{"x":{extra},"messages":[{}],"max_tokens":10000,"y":{extra}}}"#, list.join(" ,\n"));
        let text = edited(&body, &Edit { keep: Some(keep.clone()), limit, ..Edit::default() });
        let kept: Vec<String> = keep.iter().map(|n| list[*n].clone()).collect();
        let expected = format!(
            r#"{{"x":{extra},"messages":[{}],"max_tokens":{},"y":{extra}}}"#,
            kept.join(" ,\n"),
            limit.unwrap_or(10_000)
        );
        prop_assert_eq!(text, expected, "byte for byte");
    }
}
