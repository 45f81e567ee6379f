/**
 * Pictures of every state, in both themes and languages, and of the sizes and modes that only a
 * few need: `node tests/browser/shots.ts FOLDER [PART-OF-A-NAME]`. With `readme` for a part the
 * pictures that the README shows are written to `ui/shots`.
 */
import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { names } from "../../src/host/fake/scenarios.ts";
import { complaints, type Look, Stage, type Theme, type View } from "./stage.ts";

interface Shot {
  name: string;
  view: View;
  look: Look;
  /** What is pressed before the picture is taken. */
  press?: string;
}

/** States in the order in which a desk usually meets them. */
const faces = [
  "starting",
  "ready",
  "busy",
  "waiting",
  "degraded",
  "loading",
  "cooling",
  "down",
  "paused",
  "no_server",
  "not_serving",
];

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

/** What the README shows: small files, of the state that says most. */
function* readme(): Generator<Shot> {
  const height = 640;
  for (const theme of themes) {
    yield { name: `readme-${theme}`, view: { scenario: "waiting" }, look: { theme, height } };
  }
  const view = { scenario: "waiting", language: "zh-CN" } as const;
  yield { name: "readme-zh-CN", view, look: { height } };
  yield { name: "readme-down", view: { scenario: "down" }, look: { height } };
  yield {
    name: "readme-connect",
    view: { scenario: "waiting", place: "connect" },
    look: { height: 720 },
    press: "main summary >> nth=1",
  };
}

/** Every tray icon on both grounds, with its word. */
async function tray(stage: Stage, target: string): Promise<void> {
  const icons = new URL("../../../icons/tray/", import.meta.url);
  const drawn = (theme: Theme, face: string, size: number): string => {
    const png = readFileSync(new URL(`${theme}/${face}-${size}.png`, icons)).toString("base64");
    return `<img src="data:image/png;base64,${png}" width="${size}" height="${size}" alt="">`;
  };
  const row = (theme: Theme): string => {
    const cells = faces.map(
      (face) =>
        `<td>${drawn(theme, face, 44)} ${drawn(theme, face, 22)} ${drawn(theme, face, 16)}<br>` +
        `${face.replace("_", " ")}</td>`,
    );
    return `<tr class="${theme}">${cells.join("")}</tr>`;
  };
  const context = await stage.context({ width: 1210, height: 180 });
  const page = await context.newPage();
  await page.setContent(
    `<style>body{margin:0}table{border-spacing:0}td{width:110px;height:90px;text-align:center;` +
      `font:13px system-ui,"DejaVu Sans",sans-serif}.light{background:#f4f4f1;color:#1a1c1f}` +
      `.dark{background:#202225;color:#eaebed}</style><table>${themes.map(row).join("")}</table>`,
  );
  await page.screenshot({ path: target });
  await context.close();
}

const [wanted = "shots", part = ""] = process.argv.slice(2);
const forReadme = part === "readme";
const folder = forReadme ? fileURLToPath(new URL("../../shots", import.meta.url)) : wanted;
await mkdir(folder, { recursive: true });
const stage = await Stage.open();
let taken = 0;
try {
  for (const { name, view, look, press } of forReadme ? readme() : shots()) {
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
  if (forReadme || part === "") {
    await tray(stage, join(folder, forReadme ? "readme-tray.png" : "tray.png"));
    taken += 1;
  }
} finally {
  await stage.close();
}
console.log(`${taken} pictures in ${folder}`);
