import { describe, expect, it } from "vitest";

import {
  age,
  clock,
  gigabytes,
  left,
  rate,
  shortened,
  ticking,
  took,
  whole,
} from "../../src/state/format";

describe("numbers", () => {
  it.each([
    [0, "0:00"],
    [999, "0:00"],
    [42_100, "0:42"],
    [725_000, "12:05"],
    [3_725_000, "1:02:05"],
    [-5, "0:00"],
  ])("an age of %i ms ticks as %s", (ms, text) => expect(ticking(ms)).toBe(text));

  it.each([
    [1, "0:01"],
    [3000, "0:03"],
    [3001, "0:04"],
    [0, "0:00"],
    [-1, "0:00"],
  ])("a countdown of %i ms never says zero too early: %s", (ms, text) =>
    expect(left(ms)).toBe(text),
  );

  it.each([
    [4, "4 ms", "4 毫秒"],
    [120, "0.1 s", "0.1 秒"],
    [1900, "1.9 s", "1.9 秒"],
    [9949, "9.9 s", "9.9 秒"],
    [9950, "10 s", "10 秒"],
    [59_600, "1 min", "1 分钟"],
    [125_000, "2 min 5 s", "2 分钟 5 秒"],
    [3_725_000, "1 h 2 min", "1 小时 2 分钟"],
  ])("%i ms took %s", (ms, en, zh) => {
    expect(took(ms, "en")).toBe(en);
    expect(took(ms, "zh-CN")).toBe(zh);
  });

  it.each([
    [900, "0 s"],
    [59_999, "59 s"],
    [60_000, "1 min"],
    [3_599_000, "59 min"],
    [7_300_000, "2 h"],
  ])("%i ms ago is said coarsely: %s", (ms, text) => expect(age(ms, "en")).toBe(text));

  it("groups thousands in both languages", () => {
    expect(whole(8192, "en")).toBe("8,192");
    expect(whole(8192, "zh-CN")).toBe("8,192");
  });

  it("keeps one decimal of gigabytes while there is room for it", () => {
    expect(gigabytes(19.5 * 2 ** 30)).toBe("19.5");
    expect(gigabytes(128 * 2 ** 30)).toBe("128");
  });

  it("keeps one decimal of a slow rate only", () => {
    expect(rate(4.24)).toBe("4.2");
    expect(rate(31.2)).toBe("31");
  });

  it("names the day where a moment is not today", () => {
    const now = Date.UTC(2026, 10, 24, 14, 5);
    expect(clock(now + 600_000, now, "en")).toMatch(/^\d\d:\d\d$/);
    expect(clock(now + 86_400_000, now, "en")).toMatch(/[A-Z][a-z]{2}.*\d\d:\d\d/);
  });

  it("cuts a long name in its middle, by letters and not by halves of them", () => {
    expect(shortened("qwen3:8b", 24)).toBe("qwen3:8b");
    expect(shortened("abcdefghij", 6)).toBe("abc…ij");
    expect([...shortened("😀".repeat(30), 11)]).toHaveLength(11);
  });
});
