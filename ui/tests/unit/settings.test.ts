import { describe, expect, it } from "vitest";

import { FakeSettings } from "../../src/host/fake/settings";
import type { Kind } from "../../src/host/types";
import { apps, firstRequests, hasCalled, snippet } from "../../src/views/connect/apps";
import { isLocked, read, sections, usual, written } from "../../src/views/settings/members";
import { isKey } from "../../src/i18n/translate";

const { members } = new FakeSettings([]).page();

describe("a field", () => {
  const range: Kind = { is: "whole", min: 1, max: 64 };

  it.each([
    ["8", { value: 8 }],
    [" 8 ", { value: 8 }],
    ["0", { wrong: "field.out" }],
    ["65", { wrong: "field.out" }],
    ["1.5", { wrong: "field.not_whole" }],
    ["-1", { wrong: "field.not_whole" }],
    ["many", { wrong: "field.not_whole" }],
    ["", { wrong: "field.not_whole" }],
  ])("for a whole number reads %j", (text, found) => expect(read(range, text)).toEqual(found));

  it("takes auto where auto is taken", () => {
    const kind: Kind = { is: "auto_or", min: 64, max: 4096 };
    expect(read(kind, "auto")).toEqual({ value: "auto" });
    expect(read(kind, "2048")).toEqual({ value: 2048 });
    expect(read(kind, "soon")).toEqual({ wrong: "field.not_whole" });
  });

  it("takes a list by lines or commas", () => {
    expect(read({ is: "hosts" }, "a.lan, b.lan\n\nc.lan")).toEqual({
      value: ["a.lan", "b.lan", "c.lan"],
    });
  });

  it("gives back each default as it was written", () => {
    for (const { path, kind, default: value } of members) {
      if (kind.is !== "keys") expect(read(kind, written(value)), path).toEqual({ value });
    }
  });

  it("never shows a credential", () => expect(written({ hidden: true })).toBe(""));
});

describe("the settings", () => {
  it("are all in a section, in the file's order", () => {
    const all = sections(members).flatMap(([, inside]) => inside.map(({ path }) => path));
    expect(all).toEqual(members.map(({ path }) => path));
  });

  it("that people come for exist", () => {
    for (const path of usual) expect(members.map((one) => one.path)).toContain(path);
  });

  it("are locked only by what wins over the file", () => {
    const locked = members.filter(isLocked).map(({ path }) => path);
    expect(locked).toEqual(["upstream.base_url", "log.level"]);
  });
});

describe("the apps", () => {
  it("are ten or more, each with a place to put its text", () => {
    expect(apps.length).toBeGreaterThanOrEqual(10);
    expect(new Set(apps.map(({ id }) => id)).size, "each once").toBe(apps.length);
    for (const app of apps) expect(isKey(app.where), app.id).toBe(true);
  });

  it("get the gateway's URL, with a prefix that names the app", () => {
    for (const app of apps) {
      const text = snippet(app, "http://127.0.0.1:11411", "qwen3:8b");
      expect(text, app.id).toContain(`http://127.0.0.1:11411${app.path}`);
      if (app.id !== "openai")
        expect(app.path, app.id).toMatch(new RegExp(`^/app/${app.id}(/v1)?$`));
    }
  });

  it("are recognized by their prefix or by their own name", () => {
    const app = (id: string) => apps.find((one) => one.id === id)!;
    expect(hasCalled(app("zed"), new Set(["Zed"]))).toBe(true);
    expect(hasCalled(app("aider"), new Set(["litellm"]))).toBe(true);
    expect(hasCalled(app("openai"), new Set(["openai-python"]))).toBe(true);
    expect(hasCalled(app("jan"), new Set(["zed"]))).toBe(false);
  });

  it("match first_requests.json, which a test of the gateway sends", async () => {
    const text = `${JSON.stringify(firstRequests(), null, 2)}\n`;
    await expect(text).toMatchFileSnapshot("../../src/views/connect/first_requests.json");
  });
});
