import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { FIXED_NOW, names, scenario } from "../../src/host/fake/scenarios";
import { queuedItems, runningItems, statusText, tone } from "../../src/state/status_text";
import { windowBar } from "../../src/state/window";
import { isKey } from "../../src/i18n/translate";

const golden: unknown = JSON.parse(
  readFileSync(new URL("../../../src/telemetry/snapshot.golden.json", import.meta.url), "utf8"),
);
const unnamed = { app: "an app", model: "a model", server: "a server" };
const at = (ms: number): string => new Date(ms).toISOString().slice(11, 16);

/** Every member's path, lists by their first element. */
function shape(value: unknown, path = ""): string[] {
  if (Array.isArray(value)) return value.length > 0 ? shape(value[0], `${path}[]`) : [`${path}[]`];
  if (typeof value !== "object" || value === null) return [path];
  return Object.entries(value).flatMap(([name, child]) => shape(child, `${path}.${name}`));
}

describe("the fake's snapshots", () => {
  it("have every member that the gateway's have", () => {
    const fake = scenario("waiting", FIXED_NOW).snapshot;
    const refused = scenario("turned_away", FIXED_NOW).snapshot.refused_origins;
    const pause = scenario("paused", FIXED_NOW).snapshot.pause;
    const have = new Set(shape({ ...fake, refused_origins: refused, pause }));
    const stems = new Set([...have].map((path) => path.replace(/(\.plan)\.[a-z_]+$/, "$1")));
    for (const path of shape(golden)) {
      if (path === ".notices[]") continue;
      const known = [...have].some((one) => one.startsWith(path)) || stems.has(path);
      expect(known, path).toBe(true);
    }
  });

  it("count whom they list", () => {
    for (const name of names) {
      const { queue } = scenario(name, FIXED_NOW).snapshot;
      expect(queue.items.filter((item) => item.position > 0).length, name).toBe(queue.waiting);
    }
  });
});

describe("the status text", () => {
  it.each([
    ["starting", "face.starting"],
    ["new", "face.ready"],
    ["busy", "face.busy.answer"],
    ["prompt", "face.busy.prompt"],
    ["settling", "face.busy.settling"],
    ["waiting", "face.busy.answer"],
    ["elevated", "face.degraded"],
    ["critical", "face.degraded.critical"],
    ["loading", "face.loading"],
    ["cooling", "face.cooling"],
    ["down", "face.down"],
    ["paused", "face.paused.until"],
    ["paused_open", "face.paused.open"],
    ["no_server", "face.no_server"],
    ["not_serving", "face.not_serving"],
  ])("of %s is %s", (name, key) => {
    expect(statusText(scenario(name, FIXED_NOW).snapshot, unnamed, at).key).toBe(key);
  });

  it("blames the port only where the port is in the way", () => {
    const { snapshot } = scenario("not_serving", FIXED_NOW);
    snapshot.notices = [{ code: "start_failed", params: { error: "listen: no address" } }];
    expect(statusText(snapshot, unnamed, at).key).toBe("face.not_serving.failed");
    snapshot.notices = [{ code: "port_refused", params: { address: "127.0.0.1:80" } }];
    expect(statusText(snapshot, unnamed, at).key).toBe("face.not_serving.refused");
  });

  it("names who is answered, and a nameless one as well as can be", () => {
    const { snapshot } = scenario("busy", FIXED_NOW);
    expect(statusText(snapshot, unnamed, at).params["app"]).toBe("Zed");
    snapshot.queue.items.forEach((item) => (item.app = null));
    expect(statusText(snapshot, unnamed, at).params["app"]).toBe("an app");
  });

  it("counts where several are answered at once", () => {
    const { snapshot } = scenario("busy", FIXED_NOW);
    snapshot.queue.items.push({ ...snapshot.queue.items[0]!, id: "b" });
    expect(statusText(snapshot, unnamed, at)).toEqual({ key: "face.busy.many", params: { n: 2 } });
  });

  it("always has words and a tone", () => {
    for (const name of names) {
      const { snapshot } = scenario(name, FIXED_NOW);
      expect(isKey(statusText(snapshot, unnamed, at).key), name).toBe(true);
      expect(tone(snapshot.state), name).toBeTruthy();
    }
  });
});

describe("slot and line", () => {
  it("are split into running and queued by position", () => {
    const { snapshot } = scenario("full", FIXED_NOW);
    snapshot.queue.items.reverse();
    expect(runningItems(snapshot).map((item) => item.app)).toEqual(["Zed"]);
    expect(queuedItems(snapshot).map((item) => item.position)).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
    ]);
  });
});

describe("the bar of the window", () => {
  it("adds up to the window, and what was cut lies outside", () => {
    const bar = windowBar(scenario("waiting", FIXED_NOW).snapshot);
    expect(bar).toMatchObject({ running: true, cut: 2508, prompt: 6912, answer: 1024, free: 256 });
    expect(bar!.prompt + bar!.answer + bar!.free).toBe(bar!.size);
  });

  it("takes the latest request that was measured when none runs", () => {
    expect(windowBar(scenario("ready", FIXED_NOW).snapshot)).toMatchObject({ running: false });
  });

  it("is none where nothing was measured or the window is not known", () => {
    expect(windowBar(scenario("new", FIXED_NOW).snapshot)).toBeNull();
    expect(windowBar(scenario("no_server", FIXED_NOW).snapshot)).toBeNull();
  });

  it("never grows beyond the window, whatever the numbers are", () => {
    const { snapshot } = scenario("ready", FIXED_NOW);
    Object.assign(snapshot.recent[0]!, { prompt_after: 99_999, prompt_before: 1, granted: 99 });
    const bar = windowBar(snapshot);
    expect(bar).toMatchObject({ cut: 0, prompt: 8192, answer: 0, free: 0 });
  });
});
