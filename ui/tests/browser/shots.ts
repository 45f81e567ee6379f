/**
 * Pictures of every state, in both themes and languages, and of the sizes and modes that only a
 * few need: `node tests/browser/shots.ts FOLDER [PART-OF-A-NAME]`.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import { names } from "../../src/host/fake/scenarios.ts";
import { complaints, type Look, Stage, type View } from "./stage.ts";

interface Shot {
  name: string;
  view: View;
  look: Look;
  /** What is pressed before the picture is taken. */
  press?: string;
}

const languages = ["en", "zh-CN"] as const;
/** In each place, what opens something. */
const opened = [
  ["now", ".pause > button"],
  ["recent", "main summary >> nth=0"],
  ["connect", "main summary >> nth=5"],
  ["settings", "main .card > details > summary >> nth=2"],
] as const;

const themes = ["light", "dark"] as const;

function* shots(): Generator<Shot> {
  for (const language of languages) {
    for (const theme of themes) {
      const say = (name: string): string => `${name}.${theme}.${language}`;
      for (const scenario of names) {
        yield { name: say(scenario), view: { scenario, language }, look: { theme, height: 880 } };
      }
      for (const [place, press] of opened) {
        const view = { scenario: "waiting", language, place };
        const look = { theme, height: 880 };
        yield { name: say(`place-${place}`), view, look };
        yield { name: say(`open-${place}`), view, look, press };
      }
    }
  }
  const view: View = { scenario: "waiting" };
  yield { name: "small", view, look: {} };
  yield { name: "wide", view, look: { width: 900, height: 700 } };
  yield { name: "letters-200", view, look: { letters: 200, height: 880 } };
  yield { name: "letters-200-small", view, look: { letters: 200 } };
  yield {
    name: "letters-200-settings",
    view: { ...view, place: "settings" },
    look: { letters: 200, height: 880 },
  };
  yield { name: "forced", view, look: { forcedColors: true, height: 880 } };
  yield { name: "forced-dark", view, look: { forcedColors: true, theme: "dark", height: 880 } };
  yield { name: "recent-empty", view: { scenario: "new", place: "recent" }, look: {} };
  yield { name: "broken-settings", view: { scenario: "broken_file", place: "settings" }, look: {} };
}

const [folder = "shots", part = ""] = process.argv.slice(2);
await mkdir(folder, { recursive: true });
const stage = await Stage.open();
let taken = 0;
try {
  for (const { name, view, look, press } of shots()) {
    if (!name.includes(part)) continue;
    const context = await stage.context(look);
    const page = await context.newPage();
    const heard = complaints(page);
    await stage.show(page, view, look.letters);
    if (press) await page.locator(press).click();
    await page.screenshot({ path: join(folder, `${name}.png`) });
    if (heard.length > 0) throw new Error(`${name}: ${heard.join("; ")}`);
    await context.close();
    taken += 1;
  }
} finally {
  await stage.close();
}
console.log(`${taken} pictures in ${folder}`);
