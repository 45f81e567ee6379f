import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const css = readFileSync(`${root}/ui/src/styles/tokens.css`, "utf8");
const page = readFileSync(`${root}/ui/DESIGN.md`, "utf8").replace(/ +/g, " ");

const [light = "", dark = ""] = css.split("@media (prefers-color-scheme: dark)");
const colours = (text: string): { [name: string]: string } =>
  Object.fromEntries([...text.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, n, c]) => [n, c]));
const themes = { light: colours(light), dark: { ...colours(light), ...colours(dark) } };

/** Relative luminance and contrast as WCAG 2 defines them. */
function luminance(colour: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [high = 0, low = 0] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

/** [ink, ground, least]: 4.5 for text, 3 for marks and the edges of what can be pressed. */
const pairs: [string, string, number][] = [
  ...["ink", "quiet", "blue", "green", "amber", "red"].flatMap((ink): [string, string, number][] =>
    ["ground", "card", "well"].map((ground) => [ink, ground, 4.5]),
  ),
  ["on-blue", "blue", 4.5],
  ["edge", "card", 3],
  ["edge", "ground", 3],
];

describe("the colours", () => {
  for (const [theme, named] of Object.entries(themes)) {
    for (const [ink, ground, least] of pairs) {
      it(`${ink} on ${ground} reads in the ${theme} theme`, () => {
        expect(contrast(named[ink]!, named[ground]!)).toBeGreaterThanOrEqual(least);
      });
    }
  }

  it("are in the design page with the contrasts they have", () => {
    for (const [ink, ground] of pairs) {
      const [a, b] = [themes.light, themes.dark].map((named) =>
        (Math.floor(contrast(named[ink]!, named[ground]!) * 10) / 10).toFixed(1),
      );
      expect(page).toContain(`| ${ink} | ${ground} | ${a} | ${b} |`);
    }
  });
});

describe("the icons", () => {
  const states =
    "starting ready busy waiting degraded loading cooling down paused no_server not_serving";
  const sizes = [16, 20, 22, 24, 32, 44];

  for (const state of states.split(" ")) {
    it(`of ${state} are drawn in one colour and there in every size`, () => {
      const source = readFileSync(`${root}/icons/source/${state}.svg`, "utf8");
      expect(source, "the colour is the host's").not.toMatch(/#[0-9a-f]{3,6}/i);
      for (const set of ["light", "dark", "plated"]) {
        for (const size of sizes) {
          const file = `${root}/icons/tray/${set}/${state}-${size}.png`;
          expect(existsSync(file), file).toBe(true);
          expect(readFileSync(file).readUInt32BE(16), file).toBe(size);
        }
      }
      for (const size of [18, 36]) {
        const file = `${root}/icons/tray/template/${state}-${size}.png`;
        expect(readFileSync(file).readUInt32BE(16), file).toBe(size);
      }
    });
  }
});
