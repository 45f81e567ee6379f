/**
 * The words of tray and panel: one table, two languages. The tray reads the same JSON files.
 *
 * A value is a text with `{params}`, or one text per plural form, chosen by the place `n`.
 */
import type { Language } from "../host/types";
import codes from "./codes.json";
import connect from "./connect.json";
import now from "./now.json";
import recent from "./recent.json";
import said from "./said.json";
import settings from "./settings.json";
import tray from "./tray.json";

export type Text = string | { one: string; other: string };
export type Entry = { [language in Language]: Text };

const all = { ...tray, ...now, ...recent, ...codes, ...said, ...settings, ...connect };

export type Key = keyof typeof all;
export type Params = { [name: string]: string | number };

export const table: { [key: string]: Entry } = all;
export const languages: Language[] = ["en", "zh-CN"];

/** Whether there are words for this key: for keys put together from what the host sends. */
export function isKey(key: string): key is Key {
  return Object.hasOwn(table, key);
}

/** The words for `key`. */
export function word(language: Language, key: Key, params: Params = {}): string {
  const text = (table[key] as Entry)[language];
  const form = typeof text === "string" ? text : text[pluralForm(language, params["n"])];
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => String(params[name] ?? whole));
}

function pluralForm(language: Language, n: string | number | undefined): "one" | "other" {
  const count = Number(String(n ?? 0).replaceAll(",", ""));
  return new Intl.PluralRules(language).select(count) === "one" ? "one" : "other";
}

interface Known {
  key: Key;
  pattern: RegExp;
}

/** What the gateway may hang on to a sentence; each is translated by itself. */
const isEnding = (key: string): boolean => key.startsWith("said.end.");
const known = Object.entries(said as { [key: string]: Entry });
const endings = known.filter(([key]) => isEnding(key)).map(readEnglish("^(?<before>.+)"));
const sentences = known.filter(([key]) => !isEnding(key)).map(readEnglish("^"));

/**
 * A sentence that the gateway said in English, in the person's language where it is a known one,
 * as it is where not.
 */
export function heard(language: Language, sentence: string): string {
  return (language === "en" ? null : translated(language, sentence)) ?? sentence;
}

function translated(language: Language, sentence: string): string | null {
  const whole = saidBy(language, sentences, sentence);
  if (whole !== null) return whole.text;
  const end = saidBy(language, endings, sentence);
  const before = end?.before ? translated(language, end.before) : null;
  return end !== null && before !== null ? before + end.text : null;
}

function saidBy(
  language: Language,
  among: Known[],
  sentence: string,
): { text: string; before: string | undefined } | null {
  for (const { key, pattern } of among) {
    const match = pattern.exec(sentence);
    if (!match) continue;
    return { text: word(language, key, match.groups ?? {}), before: match.groups?.["before"] };
  }
  return null;
}

function readEnglish(start: string): (known: [string, Entry]) => Known {
  return ([key, entry]) => {
    const literal = (entry.en as string).replace(/[.*+?^$()|[\]\\]/g, "\\$&");
    // A place ends at a comma, where the next part of a sentence begins; only a list has some.
    const params = literal.replace(/\{(\w+)\}/g, (_, name: string) =>
      name === "list" ? `(?<${name}>.+?)` : `(?<${name}>[^,]+?)`,
    );
    return { key: key as Key, pattern: new RegExp(`${start}${params}$`) };
  };
}
