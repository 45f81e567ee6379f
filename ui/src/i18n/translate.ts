/**
 * The words of tray and panel: one table, two languages. The tray reads the same JSON files.
 *
 * A value is a text with `{params}`, or one text per plural form, chosen by the place `n`.
 */
import type { Language, Message } from "../host/types";
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

/** A message of the host; its code where there is no text for it. */
export function messageText(language: Language, message: Message): string {
  const key = `said.${message.code}`;
  return isKey(key) ? word(language, key, message.params) : message.code;
}
