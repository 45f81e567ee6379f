import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import type { AxeResults } from "axe-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { names } from "../../src/host/fake/scenarios";
import { complaints, type Look, Stage, type View } from "./stage";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let stage: Stage;
beforeAll(async () => (stage = await Stage.open()));
afterAll(() => stage.close());

/** Everything axe finds in these views, opened one after the other in one page. */
async function findings(look: Look, views: View[], press?: string): Promise<string[]> {
  const context = await stage.context(look);
  const page = await context.newPage();
  const heard = complaints(page);
  const found: string[] = [];
  for (const view of views) {
    await stage.show(page, view, look.letters);
    await page.locator("details").evaluateAll((all) => {
      for (const one of all) (one as HTMLDetailsElement).open = true;
    });
    if (press) await page.locator(press).click();
    // All of it in sight: of what is scrolled away axe cannot tell the contrast.
    const height = await page.evaluate(
      () => 400 + (document.querySelector("main")?.scrollHeight ?? 0),
    );
    await page.setViewportSize({ width: 380, height });
    await page.evaluate(axe);
    const { violations, incomplete } = await page.evaluate((): Promise<AxeResults> =>
      (window as unknown as { axe: typeof import("axe-core") }).axe.run(document, {
        resultTypes: ["violations", "incomplete"],
      }),
    );
    // Contrast that axe cannot decide counts as wrong, save below something that was opened.
    const undecided = incomplete.filter(({ id }) => id === "color-contrast" && !press);
    for (const { id, nodes } of [...violations, ...undecided]) {
      const where = nodes.map(({ target }) => target.join(" ")).join(", ");
      found.push(`${view.scenario}/${view.place ?? "now"}: ${id} at ${where}`);
    }
  }
  await context.close();
  return [...found, ...heard.map((text) => `the page complains: ${text}`)];
}

describe("axe finds nothing wrong", () => {
  for (const theme of ["light", "dark"] as const) {
    for (const language of ["en", "zh-CN"] as const) {
      it(`in any state, ${theme}, ${language}`, async () => {
        const views = names.map((scenario): View => ({ scenario, language }));
        expect(await findings({ theme }, views)).toEqual([]);
      });

      it(`in any place, ${theme}, ${language}`, async () => {
        const views = (["recent", "connect", "settings"] as const).flatMap((place): View[] => [
          { scenario: "waiting", language, place },
          { scenario: "new", language, place },
        ]);
        views.push({ scenario: "broken_file", language, place: "settings" });
        expect(await findings({ theme }, views)).toEqual([]);
      });
    }
  }

  it("in the choice of pauses", async () => {
    const views: View[] = [{ scenario: "busy" }, { scenario: "busy", language: "zh-CN" }];
    expect(await findings({}, views, ".pause > button")).toEqual([]);
  });

  it("with letters twice as large", async () => {
    const views = (["now", "recent", "connect", "settings"] as const).map((place): View => ({
      scenario: "waiting",
      place,
    }));
    expect(await findings({ letters: 200 }, views)).toEqual([]);
  });
});
