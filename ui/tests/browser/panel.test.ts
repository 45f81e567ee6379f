import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { names } from "../../src/host/fake/scenarios";
import { type Look, Stage, type View } from "./stage";

let stage: Stage;
beforeAll(async () => (stage = await Stage.open()));
afterAll(() => stage.close());

async function within(view: View, look: Look, act: (page: Page) => Promise<void>): Promise<void> {
  const context = await stage.context(look);
  const page = await context.newPage();
  await stage.show(page, view, look.letters);
  await act(page);
  await context.close();
}

const focused = (page: Page): Promise<string> =>
  page.evaluate(() => {
    const at = document.activeElement;
    const name = at?.getAttribute("aria-label") ?? at?.textContent ?? "";
    return name.trim().replace(/\s+/g, " ");
  });

async function press(page: Page, key: string, times = 1): Promise<void> {
  for (let count = 0; count < times; count += 1) await page.keyboard.press(key);
}

const sentence = (page: Page): Promise<string> => page.locator("h1").innerText();

describe("by keyboard alone", () => {
  it("one pauses, hears of it, and resumes at the same spot", () =>
    within({ scenario: "busy" }, {}, async (page) => {
      await press(page, "Tab");
      expect(await focused(page)).toBe("Pause");
      await press(page, "Enter");
      expect(await focused(page), "the first choice has the focus").toBe("15 minutes");
      await press(page, "Tab");
      await press(page, "Enter");
      await page.waitForFunction(() =>
        document.querySelector("h1")?.textContent?.includes("Paused"),
      );
      expect(await focused(page), "what comes in its place has the focus").toBe("Resume");
      await page.locator("[data-live]", { hasText: "Paused until" }).waitFor();
      await press(page, "Enter");
      await page.waitForFunction(
        () => document.querySelector("h1")?.textContent === "Answering Zed",
      );
    }));

  it("Escape closes the choice of pauses and gives the focus back", () =>
    within({ scenario: "busy" }, {}, async (page) => {
      await press(page, "Tab");
      await press(page, "Enter");
      await press(page, "Escape");
      expect(await focused(page)).toBe("Pause");
      expect(await page.getByRole("group", { name: "Pause inference" }).count()).toBe(0);
    }));

  it("one reaches every place, and then what is in it", () =>
    within({ scenario: "waiting" }, {}, async (page) => {
      await press(page, "Tab", 5);
      expect(await focused(page)).toBe("Settings");
      await press(page, "Enter");
      await page.waitForSelector("input[type=search]");
      expect(await page.locator("[aria-current=page]").innerText()).toBe("Settings");
      await press(page, "Tab");
      expect(await page.evaluate(() => document.activeElement?.tagName)).toBe("INPUT");
    }));

  it("one cancels a waiting request and the running one", () =>
    within({ scenario: "waiting" }, {}, async (page) => {
      const cancel = (app: string) =>
        page.getByRole("button", { name: `Cancel the request from ${app}` });
      await cancel("Cline").press("Enter");
      await cancel("Cline").waitFor({ state: "detached" });
      const at = await page.evaluate(() => document.activeElement?.querySelector("h2")?.innerText);
      expect(at, "the card around the row has the focus").toBe("Current request");
      await cancel("Zed").press("Enter");
      await cancel("Zed").waitFor({ state: "detached" });
      expect(await page.getByText("Open WebUI").count()).toBeGreaterThan(0);
    }));

  it("everything that can be pressed can be reached, and shows where the focus is", () =>
    within({ scenario: "turned_away" }, { height: 900 }, async (page) => {
      const all = await page
        .locator("button:not([disabled]), summary")
        .evaluateAll((found) => found.length);
      const seen = new Set<string>();
      for (let count = 0; count < all + 3; count += 1) {
        await press(page, "Tab");
        const mark = await page.evaluate(() => {
          const at = document.activeElement;
          if (!at || at === document.body || at.tagName === "MAIN") return null;
          if (getComputedStyle(at).outlineStyle === "none") return "no outline";
          const box = at.getBoundingClientRect();
          return `${at.tagName} ${box.x} ${box.y}`;
        });
        if (mark) seen.add(mark);
      }
      expect(seen).not.toContain("no outline");
      expect(seen.size).toBeGreaterThanOrEqual(all);
    }));
});

describe("a setting", () => {
  const view: View = { scenario: "ready", place: "settings" };

  it("that is out of range is refused beside its field, and stays as it was", () =>
    within(view, {}, async (page) => {
      const field = page.getByRole("textbox", { name: "Queue size" }).first();
      await field.fill("-1");
      await field.press("Enter");
      await page.getByText("Enter a whole number.").waitFor();
      expect(await field.getAttribute("aria-invalid")).toBe("true");
      await field.fill("8");
      await field.press("Enter");
      await page.getByText("Saved", { exact: true }).first().waitFor();
      expect(await field.getAttribute("aria-invalid")).toBe("false");
    }));

  it("that the gateway refuses says why, in the gateway's words", () =>
    within(view, {}, async (page) => {
      await page.getByRole("searchbox").fill("listen");
      await page.getByLabel("Address", { exact: true }).fill("nowhere");
      await page.getByLabel("Address", { exact: true }).blur();
      await page.getByText("Not saved: expected addresses with ports").waitFor();
    }));

  it("that is secret stays typed until it is kept, and then stands nowhere", async () => {
    const type = async (page: Page): Promise<Locator> => {
      await page.getByRole("searchbox").fill("key for the server");
      const field = page.getByLabel("Key for the server", { exact: true });
      await field.fill("sk-typed");
      await field.press("Enter");
      return field;
    };
    await within({ ...view, fail: "change" }, {}, async (page) => {
      const field = await type(page);
      await page.getByRole("alert").getByText("Failed").waitFor();
      expect(await field.inputValue()).toBe("sk-typed");
    });
    await within(view, {}, async (page) => {
      const field = await type(page);
      await page.getByText("Saved", { exact: true }).first().waitFor();
      expect(await field.inputValue()).toBe("");
    });
  });

  it("goes back to its default", () =>
    within(view, {}, async (page) => {
      const name = "Reset to default: Queue size";
      const reset = page.getByRole("button", { name }).first();
      await reset.click();
      await reset.waitFor({ state: "detached" });
      const field = page.getByRole("textbox", { name: "Queue size" }).first();
      expect(await field.inputValue()).toBe("4");
    }));

  it("that the environment sets is locked and says by what", () =>
    within(view, {}, async (page) => {
      const field = page.getByRole("textbox", { name: "Model server" }).first();
      expect(await field.isDisabled()).toBe(true);
      await page.getByText("ONESLOT_UPSTREAM__BASE_URL").first().waitFor();
    }));

  it("of the language acts at once, on words and on the page's own language", () =>
    within(view, {}, async (page) => {
      await page.getByLabel("Language").selectOption("zh-CN");
      await page.waitForFunction(() => document.documentElement.lang === "zh-CN");
      expect(await sentence(page)).toBe("就绪");
    }));
});

describe("the first steps", () => {
  it("prove the server with a test prompt and lead to the apps", () =>
    within({ scenario: "new" }, {}, async (page) => {
      await page.getByText("Ollama found at http://127.0.0.1:11434").waitFor();
      await page.getByRole("button", { name: "Send a test prompt" }).click();
      await page.getByText("qwen3:8b answered in 1.2 s").waitFor();
      await page.getByRole("button", { name: "Connect an app" }).click();
      await page.getByText("0 of 15 connected").waitFor();
    }));

  it("say what to try where there is no server", () =>
    within({ scenario: "no_server" }, {}, async (page) => {
      await page.getByRole("button", { name: "Search again" }).click();
      await page.getByText("Nothing found on ports 11434, 1234 and 8080.").waitFor();
      await page.getByRole("button", { name: "Set the address" }).click();
      await page.getByLabel("Model server", { exact: true }).waitFor();
    }));

  it("offer another port where the port is taken", () =>
    within({ scenario: "not_serving" }, {}, async (page) => {
      await page.getByText("in use by python3 (pid 2841)").waitFor();
      await page.getByRole("button", { name: "Use another port" }).click();
      await page.waitForFunction(
        () => !document.querySelector("h1")?.textContent?.includes("Not serving"),
      );
    }));
});

describe("connecting an app", () => {
  it("copies the text that is shown, and ticks who has called", () =>
    within({ scenario: "ready", place: "connect" }, {}, async (page) => {
      await page.getByText("6 of 15 connected").waitFor();
      await page.locator("summary", { hasText: "Continue" }).click();
      await page.getByRole("button", { name: "Copy the set-up for Continue" }).click();
      await page.waitForFunction(() => document.documentElement.dataset["copied"] !== undefined);
      const copied = await page.evaluate(() => document.documentElement.dataset["copied"]);
      expect(copied).toContain("apiBase: http://127.0.0.1:11411/app/continue/v1");
    }));
});

describe("what fails", () => {
  it("is said aloud and can be put away", () =>
    within({ scenario: "down", fail: "check" }, {}, async (page) => {
      await page.getByRole("button", { name: "Check now" }).click();
      await page.getByRole("alert").getByText("Failed: the gateway did not answer").waitFor();
      await page.getByRole("button", { name: "Close" }).click();
      expect(await page.getByText("Failed").count()).toBe(0);
    }));

  it("to be heard of is said, with what was last known", () =>
    within({ scenario: "lost" }, {}, async (page) => {
      await page.getByRole("alert").getByText("The values below may be out of date.").waitFor();
      expect(await sentence(page)).toBe("Gateway not responding");
      expect(await page.getByText("Idle. The next request starts immediately.").count()).toBe(1);
    }));
});

describe("the page", () => {
  it("speaks of a change of state once, and never of counters", () =>
    within({ scenario: "busy" }, {}, async (page) => {
      await page.locator("[data-live]", { hasText: "Answering Zed" }).waitFor();
      await page.evaluate(() => {
        const live = document.querySelector("[data-live]");
        const said: string[] = [];
        Object.assign(window, { said });
        if (live) {
          new MutationObserver(() => said.push(live.textContent ?? "")).observe(live, {
            childList: true,
            characterData: true,
            subtree: true,
          });
        }
      });
      await page.waitForTimeout(1600);
      const quiet = await page.evaluate(() => (window as unknown as { said: string[] }).said);
      expect(quiet, "six snapshots came, and nothing had changed").toEqual([]);
    }));

  it("never scrolls sideways, in any state, small or with large letters", async () => {
    for (const letters of [100, 200]) {
      const context = await stage.context({});
      const page = await context.newPage();
      const places = ["recent", "connect", "settings"] as const;
      const views: View[] = [
        ...names.map((scenario) => ({ scenario })),
        ...places.map((place) => ({ scenario: "waiting", place })),
      ];
      for (const view of views) {
        await stage.show(page, view, letters);
        const over = await page.evaluate(() => {
          const main = document.querySelector("main");
          const root = document.documentElement;
          return Math.max(
            root.scrollWidth - root.clientWidth,
            (main?.scrollWidth ?? 0) - (main?.clientWidth ?? 0),
          );
        });
        expect(over, `${view.scenario} ${view.place ?? ""} at ${letters} %`).toBeLessThanOrEqual(0);
      }
      await context.close();
    }
  });

  it("keeps everything in its place while numbers tick", () =>
    within({ scenario: "waiting" }, {}, async (page) => {
      const boxes = (): Promise<string> =>
        page
          .locator("h1, .card, nav button")
          .evaluateAll((all) =>
            JSON.stringify(all.map((one) => Object.values(one.getBoundingClientRect().toJSON()))),
          );
      const before = await boxes();
      await page.waitForTimeout(1200);
      expect(await boxes()).toBe(before);
    }));

  it("has time and cancel button at one spot, whatever the phase and however long the name", () =>
    within({ scenario: "busy" }, {}, async (page) => {
      const spots = new Set<string>();
      for (const scenario of ["busy", "prompt", "loading", "long"]) {
        await stage.show(page, { scenario }, 100);
        const spot = await page.locator(".who button").evaluate((one) => {
          const { left, right, top, bottom } = one.getBoundingClientRect();
          return [left, right, top, bottom].map(Math.round).join(" ");
        });
        spots.add(spot);
      }
      expect([...spots]).toHaveLength(1);
    }));

  it("says all under a sentence of one line, as long as two lines have room for it", async () => {
    for (const language of ["en", "zh-CN"] as const) {
      for (const scenario of ["starting", "cooling", "paused", "wants_key"]) {
        await within({ scenario, language }, {}, async (page) => {
          const hidden = await page
            .locator("header p.under")
            .evaluate((one) =>
              Math.max(one.scrollHeight - one.clientHeight, one.scrollWidth - one.clientWidth),
            );
          expect(hidden, `${scenario} ${language}`).toBeLessThanOrEqual(1);
        });
      }
    }
  });

  it("moves nothing for those who asked for that", () =>
    within({ scenario: "waiting" }, { reducedMotion: true }, async (page) => {
      const moving = await page
        .locator("*")
        .evaluateAll(
          (all) => all.filter((one) => getComputedStyle(one).transitionDuration !== "0s").length,
        );
      expect(moving).toBe(0);
    }));

  it("stays readable in forced colours: bars and buttons keep an edge", () =>
    within({ scenario: "waiting" }, { forcedColors: true }, async (page) => {
      const edge = await page
        .locator("button, .card")
        .evaluateAll((all) => all.every((one) => getComputedStyle(one).borderStyle !== "none"));
      expect(edge).toBe(true);
    }));

  it("keeps nothing when it is closed", () =>
    within({ scenario: "waiting" }, {}, async (page) => {
      const kept = await page.evaluate(async () => ({
        local: localStorage.length,
        session: sessionStorage.length,
        bases: (await indexedDB.databases()).length,
        cookies: document.cookie,
      }));
      expect(kept).toEqual({ local: 0, session: 0, bases: 0, cookies: "" });
    }));
});
