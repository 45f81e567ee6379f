import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { type AST, parse } from "svelte/compiler";
import { describe, expect, it } from "vitest";

import { FakeSettings } from "../../src/host/fake/settings";
import {
  messageText,
  isKey,
  type Key,
  languages,
  table,
  type Text,
  word,
} from "../../src/i18n/translate";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const read = (path: string): string => readFileSync(`${root}/${path}`, "utf8");

const sources = readdirSync(`${root}/ui/src`, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".svelte") || path.endsWith(".ts"))
  .map((path) => `ui/src/${path}`);
const components = sources.filter((path) => path.endsWith(".svelte"));

const forms = (text: Text): string[] => (typeof text === "string" ? [text] : Object.values(text));
const places = (text: string): string[] =>
  [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "").sort();

describe("the table of words", () => {
  it("has every word in every language, with the same places", () => {
    for (const [key, entry] of Object.entries(table)) {
      expect(Object.keys(entry).sort(), key).toEqual([...languages].sort());
      const [first, ...rest] = languages.flatMap((language) => forms(entry[language]));
      for (const text of rest) expect(places(text), key).toEqual(places(first ?? ""));
    }
  });

  it("has no empty word", () => {
    for (const [key, entry] of Object.entries(table)) {
      for (const text of languages.flatMap((language) => forms(entry[language]))) {
        expect(text.trim(), key).not.toBe("");
      }
    }
  });

  it("writes Chinese with Chinese marks", () => {
    for (const [key, entry] of Object.entries(table)) {
      for (const text of forms(entry["zh-CN"])) {
        expect(text, key).not.toMatch(/[\u4e00-\u9fff][,;:?!]|[,;:?!][\u4e00-\u9fff]/);
      }
    }
  });

  it("chooses the form by number", () => {
    expect(word("en", "waiting", { n: 1 })).toBe("1 waiting");
    expect(word("en", "item.tokens", { n: 1 })).toBe("1 token");
    expect(word("en", "item.tokens", { n: "1,024" })).toBe("1,024 tokens");
    expect(word("zh-CN", "item.tokens", { n: 1 })).toBe("1 个 token");
  });

  it("leaves a placeholder without a value visible", () => {
    expect(word("en", "face.busy.answer")).toBe("Answering {app}");
  });

  it("has no unused key", () => {
    const tray = new Set(Object.keys(JSON.parse(read("ui/src/i18n/tray.json")) as object));
    const said = sources.map(read).join("\n");
    const built = /^(app|code|member|why|said|face|phase|level|section|unit|fault|outcome)\./;
    for (const key of Object.keys(table)) {
      if (tray.has(key) || built.test(key)) continue;
      const stem = key.replace(/\.[^.]+$/, ".$" + "{");
      expect(said.includes(`"${key}"`) || said.includes(`\`${stem}`), key).toBe(true);
    }
  });
});

describe("what is said in components", () => {
  it("comes from the table: no component has letters of its own", () => {
    const found = components.flatMap((path) =>
      literals(parse(read(path), { modern: true }).fragment).map((text) => `${path}: ${text}`),
    );
    expect(found).toEqual([]);
  });
});

/** Text and spoken attributes that hold letters. */
function literals(fragment: AST.Fragment): string[] {
  const spoken = new Set(["aria-label", "title", "placeholder", "alt", "label"]);
  const found: string[] = [];
  const look = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(look);
    if (typeof node !== "object" || node === null) return;
    const one = node as { type?: string; name?: string; data?: string; value?: unknown };
    if (one.type === "Text" && /\p{L}/u.test(one.data ?? "")) found.push(one.data ?? "");
    if (one.type === "Attribute") {
      if (spoken.has(one.name ?? "")) look(one.value);
      return;
    }
    for (const [name, child] of Object.entries(node)) {
      if (!["metadata", "parent", "expression"].includes(name)) look(child);
    }
  };
  look(fragment.nodes);
  return found;
}

describe("what the gateway says", () => {
  const advice = read("src/refusal/advice.rs");

  it("has words for every code of a refusal", () => {
    const codes = [...advice.matchAll(/=> "([A-Z_]+)"/g)].map(([, code]) => code ?? "");
    expect(codes.length).toBeGreaterThan(20);
    for (const code of codes) {
      expect(isKey(`code.${code}.what`), code).toBe(true);
      expect(isKey(`code.${code}.do`), code).toBe(true);
    }
  });

  it("is put into words by its code and values", () => {
    const message = { code: "process_exited", params: { status: 1 } };
    expect(messageText("en", message)).toBe("The model server’s process exited with status 1");
    expect(messageText("zh-CN", message)).toBe("模型服务器的进程已退出，状态 1");
    expect(messageText("en", { code: "from_the_future", params: {} })).toBe("from_the_future");
  });

  it("has a name and a reason for every setting, and the English reason is the gateway's", () => {
    const { members } = new FakeSettings([]).page();
    expect(members.length).toBeGreaterThan(25);
    for (const { path, reason } of members) {
      expect(isKey(`member.${path}`), path).toBe(true);
      expect(word("en", `why.${path}` as Key), path).toBe(reason);
      const [section, name] = path.split(".");
      expect(isKey(`section.${name === undefined ? "top" : section}`), path).toBe(true);
    }
    const known = members.map(({ path }) => path);
    const named = Object.keys(table).filter((key) => key.startsWith("member."));
    expect(named.filter((key) => !known.includes(key.slice(7)))).toEqual([]);
  });

  it("names every state in words", () => {
    const snapshot = read("src/telemetry/snapshot.rs");
    const face = /pub enum Face \{[\s\S]*?\n\}/.exec(snapshot)?.[0] ?? "";
    const states = [...face.matchAll(/^ {4}([A-Z]\w+),/gm)].map(([, name]) =>
      (name ?? "").replace(/(?<!^)([A-Z])/g, "_$1").toLowerCase(),
    );
    expect(states.length).toBe(11);
    for (const state of states) {
      expect(isKey(`face.word.${state}`), state).toBe(true);
      expect(() => read(`icons/source/${state}.svg`), state).not.toThrow();
    }
  });
});
