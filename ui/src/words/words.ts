/**
 * The words of tray and panel: one table, two languages. The tray reads the same JSON files.
 *
 * A value is a text with `{places}`, or one text per plural form, chosen by the place `n`.
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
export type Places = { [name: string]: string | number };

export const table: { [key: string]: Entry } = all;
export const languages: Language[] = ["en", "zh-CN"];

/** Whether there are words for this key: for keys put together from what the host sends. */
export function isKey(key: string): key is Key {
  return Object.hasOwn(table, key);
}

/** The words for `key`. */
export function word(language: Language, key: Key, places: Places = {}): string {
  const text = (table[key] as Entry)[language];
  const form = typeof text === "string" ? text : text[pluralForm(language, places["n"])];
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => String(places[name] ?? whole));
}

function pluralForm(language: Language, n: string | number | undefined): "one" | "other" {
  const count = Number(String(n ?? 0).replaceAll(",", ""));
  return new Intl.PluralRules(language).select(count) === "one" ? "one" : "other";
}

const sentences = Object.entries(said as { [key: string]: Entry }).map(([key, entry]) => ({
  key: key as Key,
  pattern: pattern(entry.en as string),
}));

/**
 * A sentence that the gateway said in English, in the person's language where it is a known one,
 * as it is where not.
 */
export function heard(language: Language, sentence: string): string {
  if (language === "en") return sentence;
  for (const { key, pattern } of sentences) {
    const match = pattern.exec(sentence);
    if (match) return word(language, key, match.groups ?? {});
  }
  return sentence;
}

function pattern(english: string): RegExp {
  const literal = english.replace(/[.*+?^$()|[\]\\]/g, "\\$&");
  return new RegExp(`^${literal.replace(/\{(\w+)\}/g, "(?<$1>.+?)")}$`);
}
