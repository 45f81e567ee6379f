/**
 * A browser and a server for tests and pictures: the panel as it is built, with the fake behind
 * its door, under the policy that the tray's page has.
 */
import { createReadStream, existsSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";

const BUILT = fileURLToPath(new URL("../../dist-fake", import.meta.url));

/** The page's policy; the tray's configuration has the same, with its own channel besides. */
export const POLICY = [
  "default-src 'self'",
  "connect-src 'self'",
  "style-src 'self'",
  "script-src 'self'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const TYPES: { [ending: string]: string } = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};

export type Theme = "light" | "dark";
export interface View {
  scenario: string;
  language?: "en" | "zh-CN";
  place?: "now" | "recent" | "connect" | "settings";
  fail?: string;
}
export interface Look {
  theme?: Theme;
  width?: number;
  height?: number;
  forcedColors?: boolean;
  reducedMotion?: boolean;
  /** Size of letters in percent of the usual. */
  letters?: number;
}

/** Where a program of this name lies. */
function browserAt(name: string): string {
  if (name.includes("/")) return name;
  const folders = (process.env["PATH"] ?? "").split(":");
  const found = folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
  if (!found) throw new Error(`there is no ${name} on the PATH; \`cargo xtask panel\` brings one`);
  return found;
}

/** Everything that must be ended again. */
export class Stage {
  private readonly server: Server;
  private readonly browser: Browser;
  readonly address: string;

  private constructor(server: Server, browser: Browser, address: string) {
    this.server = server;
    this.browser = browser;
    this.address = address;
  }

  static async open(): Promise<Stage> {
    if (!existsSync(join(BUILT, "index.html"))) {
      throw new Error("the panel is not built: run `npm run build:fake` first");
    }
    const server = createServer((request, response) => {
      const path = new URL(request.url ?? "/", "http://panel").pathname;
      const file = join(BUILT, normalize(path === "/" ? "/index.html" : path));
      if (!file.startsWith(BUILT) || !existsSync(file)) {
        response.writeHead(404).end();
        return;
      }
      response.writeHead(200, {
        "content-type": TYPES[extname(file)] ?? "application/octet-stream",
        "content-security-policy": POLICY,
      });
      createReadStream(file).pipe(response);
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const bound = server.address();
    const port = typeof bound === "object" && bound !== null ? bound.port : 0;
    const browser = await chromium.launch({
      executablePath: browserAt(process.env["ONESLOT_TEST_BROWSER"] ?? "chromium"),
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--font-render-hinting=none",
      ],
    });
    return new Stage(server, browser, `http://127.0.0.1:${port}`);
  }

  async context(look: Look = {}): Promise<BrowserContext> {
    return this.browser.newContext({
      viewport: { width: look.width ?? 380, height: look.height ?? 560 },
      colorScheme: look.theme ?? "light",
      forcedColors: look.forcedColors ? "active" : "none",
      reducedMotion: look.reducedMotion === false ? "no-preference" : "reduce",
      locale: "en-US",
      timezoneId: "UTC",
    });
  }

  /** Shows a view and waits until it stands still. What the page complains of is an error. */
  async show(page: Page, view: View, letters = 100): Promise<void> {
    const query = new URLSearchParams({ scenario: view.scenario, lang: view.language ?? "en" });
    if (view.fail) query.set("fail", view.fail);
    await page.goto(`${this.address}/?${query}`);
    await page.waitForSelector("main h2", { state: "attached" });
    await page.waitForFunction(
      (lang) => document.documentElement.lang === lang,
      view.language ?? "en",
    );
    if (letters !== 100) {
      await page.evaluate((size) => {
        document.documentElement.style.fontSize = `${size}%`;
      }, letters);
    }
    if (view.place && view.place !== "now") {
      const index = ["now", "recent", "connect", "settings"].indexOf(view.place);
      await page.locator("nav button").nth(index).click();
      if (view.place === "settings") await page.waitForSelector("input[type=search]");
    }
    if (view.scenario === "lost") await page.waitForSelector("[role=alert] >> nth=0");
  }

  async close(): Promise<void> {
    await this.browser.close();
    await new Promise((done) => this.server.close(done));
  }
}

/** Gathers what a page complains of, so that a test can hold that it is nothing. */
export function complaints(page: Page): string[] {
  const heard: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") heard.push(message.text());
  });
  page.on("pageerror", (error) => heard.push(error.message));
  return heard;
}
