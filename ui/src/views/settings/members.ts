/** Members in their sections, and how a value is written and read in a field. Pure. */
import type { Kind, Member, Value } from "../../host/types";
import { isKey, type Key } from "../../i18n/translate";

/** Members that most people come for, in the order shown. */
export const usual = [
  "upstream.base_url",
  "upstream.model",
  "queue.max_waiting",
  "degrade.ladder",
  "window.context",
  "preset",
];

/** The words for a member's name. */
export function memberName(member: Member): Key {
  const key = `member.${member.path}`;
  return isKey(key) ? key : "unknown";
}

/** Members by section, in the order of the file. */
export function sections(members: Member[]): [Key, Member[]][] {
  const found = new Map<Key, Member[]>();
  for (const member of members) {
    const [section, name] = member.path.split(".");
    const key = `section.${name === undefined ? "top" : section}`;
    if (!isKey(key)) continue;
    found.set(key, [...(found.get(key) ?? []), member]);
  }
  return [...found];
}

/** Whether something that the panel cannot change sets it. */
export function isLocked(member: Member): boolean {
  return member.origin.from === "variable" || member.origin.from === "flag";
}

/** A value as text in a field. */
export function written(value: Value): string {
  if (typeof value === "object") return Array.isArray(value) ? value.join("\n") : "";
  return String(value);
}

/** What a person typed, as a value; or which words say why it is none. */
export function read(kind: Kind, text: string): { value: Value } | { wrong: Key } {
  const typed = text.trim();
  switch (kind.is) {
    case "bool":
      return { value: typed === "true" };
    case "whole":
      return whole(typed, kind.min, kind.max);
    case "number": {
      const number = Number(typed);
      return kind.of.includes(number) ? { value: number } : { wrong: "field.out" };
    }
    case "auto_or":
      return typed === "auto" ? { value: "auto" } : whole(typed, kind.min, kind.max);
    case "word":
    case "text":
    case "secret":
    case "server":
      return { value: typed };
    case "addresses":
    case "hosts":
    case "origins":
    case "keys":
      return {
        value: typed
          .split(/[\n,]/)
          .map((line) => line.trim())
          .filter((line) => line !== ""),
      };
  }
}

function whole(typed: string, min: number, max: number): { value: Value } | { wrong: Key } {
  if (!/^\d+$/.test(typed)) return { wrong: "field.not_whole" };
  const number = Number(typed);
  return number >= min && number <= max ? { value: number } : { wrong: "field.out" };
}
