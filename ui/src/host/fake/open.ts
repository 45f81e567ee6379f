/**
 * A host that is no host: the same door, with a chosen state behind it. It lets the panel run and
 * be tested in a plain browser (`npm run dev`, then `?scenario=waiting&lang=zh-CN`), and acts on
 * wishes so that each button can be tried. No program ships it.
 */
import type { Host } from "../host";
import type { Fault, Language, PauseWish, Shell, Snapshot, Update } from "../types";
import { FIXED_NOW, scenario } from "./scenarios";
import { FakeSettings } from "./settings";

/** Between two updates, as the real host promises at most. */
const PACE_MS = 250;

const spans = { "15m": 15 * 60_000, "1h": 3_600_000, tomorrow: 18 * 3_600_000 };

/** Opens the fake host; the page's address chooses its state. */
export function open(): Host {
  const wish = new URLSearchParams(location.search);
  return fake({
    scenario: wish.get("scenario") ?? "waiting",
    language: wish.get("lang") === "zh-CN" ? "zh-CN" : "en",
    fail: wish.get("fail"),
  });
}

export interface FakeWish {
  scenario: string;
  language: Language;
  /** The command that is to fail. */
  fail: string | null;
}

/** A fake host in that state. */
export function fake(wish: FakeWish): Host {
  const chosen = scenario(wish.scenario, FIXED_NOW);
  const settings = new FakeSettings(chosen.faults);
  let snapshot = chosen.snapshot;
  let shell: Shell = {
    platform: "linux",
    gateway: "own",
    tray: "shown",
    language: wish.language,
    language_wish: "auto",
    start_at_login: false,
    notify: { down: true, memory: true, no_server: true, not_serving: true },
    seen_apps: snapshot.recent.length > 0 ? ["zed", "Open WebUI", "Cline", "my-script"] : [],
    ...chosen.shell,
  };

  const change = (edit: (next: Snapshot) => void): void => {
    const next = structuredClone(snapshot);
    edit(next);
    next.seq += 1;
    snapshot = next;
  };

  async function act<T>(name: string, then: () => T): Promise<T> {
    await new Promise((done) => setTimeout(done, 20));
    if (wish.fail === name) {
      throw {
        code: "FAILED",
        message: { code: "failed", params: { error: "the gateway did not answer" } },
      } satisfies Fault;
    }
    return then();
  }

  const drop = (keeps: (position: number, id: string) => boolean): void =>
    change((next) => {
      next.queue.items = next.queue.items.filter((one) => keeps(one.position, one.id));
      next.queue.running = next.queue.items.filter((one) => one.position === 0).length;
      next.queue.waiting = next.queue.items.length - next.queue.running;
      settle(next);
    });

  return {
    watch(hear: (update: Update) => void) {
      const send = (): void =>
        hear({
          kind: "snapshot",
          run: "fake",
          snapshot: structuredClone(snapshot),
          same_recent: false,
        });
      const first = setTimeout(send, 0);
      const timer = setInterval(() => {
        if (chosen.lost) hear({ kind: "lost", reason: "the connection was closed" });
        else send();
      }, PACE_MS);
      return () => {
        clearTimeout(first);
        clearInterval(timer);
      };
    },

    pause: ({ span, stop, unload }: PauseWish) =>
      act("pause", () => {
        if (stop) drop((position) => position > 0);
        change((next) => {
          next.pause = { until_ms: span === "open" ? null : next.now_ms + spans[span] };
          next.state = "paused";
          if (unload) next.upstream.model = null;
        });
      }),
    resume: () =>
      act("resume", () =>
        change((next) => {
          next.pause = null;
          next.state = "ready";
          settle(next);
        }),
      ),
    check: () =>
      act("check", () =>
        change((next) => {
          next.health = {
            ...next.health,
            state: "ready",
            consecutive_failures: 0,
            cooldown_ms: 0,
            last_ok_ms: next.now_ms,
          };
          if (next.state === "cooling" || next.state === "down") next.state = "ready";
          settle(next);
        }),
      ),
    unload: () =>
      act("unload", () => {
        const models = [snapshot.upstream.model ?? ""];
        change((next) => (next.upstream.model = null));
        return models;
      }),
    stop: () => act("stop", () => drop((position) => position > 0)),
    cancel: (id) => act("cancel", () => drop((_, one) => one !== id)),

    settings: () => act("settings", () => settings.page()),
    change: (path, value) => act("change", () => settings.change(path, value)),
    allow: (kind, value) =>
      act("allow", () => {
        change((next) => {
          next.refused_origins = next.refused_origins.filter((one) => one.value !== value);
        });
        return settings.add(`access.allowed_${kind}s`, value);
      }),

    find: () => act("find", () => []),
    prove: () =>
      act("prove", () =>
        snapshot.upstream.kind === null
          ? {
              ok: false as const,
              code: "LLM_UNAVAILABLE",
              message: "No model server was found on ports 11434, 1234 and 8080",
            }
          : {
              ok: true as const,
              model: snapshot.upstream.model ?? "qwen3:8b",
              first_token_ms: 640,
              total_ms: 1240,
              text: "Ready.",
            },
      ),
    anotherPort: () =>
      act("anotherPort", () => {
        change((next) => {
          next.listen = ["127.0.0.1:11412", "[::1]:11412"];
          next.state = "no_server";
          next.notices = [];
        });
        return settings.change("listen", ["127.0.0.1:11412", "[::1]:11412"]);
      }),

    shell: () => act("shell", () => shell),
    changeShell: (next) =>
      act("changeShell", () => {
        const language = next.language_wish ?? shell.language_wish;
        shell = {
          ...shell,
          ...next,
          notify: { ...shell.notify, ...next.notify },
          language: language === "auto" ? wish.language : language,
        };
        return shell;
      }),

    open: () => act("open", () => undefined),
    copy: (text) =>
      act("copy", () => {
        document.documentElement.dataset["copied"] = text;
      }),
  };
}

/** The face that follows from who runs and waits, where nothing graver holds. */
function settle(next: Snapshot): void {
  if (!["ready", "busy", "waiting"].includes(next.state)) return;
  next.queue.items
    .filter((one) => one.position > 0)
    .forEach((one, index) => (one.position = index + 1));
  next.state = next.queue.waiting > 0 ? "waiting" : next.queue.running > 0 ? "busy" : "ready";
  next.plan =
    next.queue.waiting > 0
      ? { rung: 1, ceiling: 2048, reason: "waiting" }
      : { rung: 0, ceiling: null, reason: null };
}
