/**
 * The panel's state while it is open: what is known, which tab is shown, what just failed.
 * Everything a part needs comes from here; only this file calls the host.
 */
import { getContext, setContext } from "svelte";

import type { Host } from "../host/host";
import type {
  Changed,
  Fault,
  Language,
  Message,
  Shell,
  ShellWish,
  Snapshot,
  Update,
} from "../host/types";
import { type Key, messageText, type Params, word } from "../i18n/translate";
import { clock, shortened } from "./format";
import { isSilent, type Known, nothing, reduce } from "./reduce";
import { type Saying, statusText } from "./status_text";

export type Tab = "now" | "recent" | "connect" | "settings";
export const tabs: Tab[] = ["now", "recent", "connect", "settings"];

/** Letters of an app's or a model's name in the status text. */
const NAME_LETTERS = 28;

/** How often ages and countdowns move while the panel is seen. */
const TICK_MS = 500;

export class Panel {
  readonly host: Host;
  known = $state.raw<Known>(nothing);
  shell = $state.raw<Shell | null>(null);
  tab = $state<Tab>("now");
  /** A setting that another tab links to. */
  wanted = $state<string | null>(null);
  /** What could not be done, in words; said once, at the foot. */
  failure = $state<string | null>(null);
  /** What was done and shows nowhere else. */
  success = $state<string | null>(null);
  now = $state(0);
  private seenHere = $state.raw<ReadonlySet<string>>(new Set());

  constructor(host: Host) {
    this.host = host;
  }

  /** Begins to listen; the function it gives ends it. */
  begin(): () => void {
    const unwatch = this.host.watch((update) => this.hear(update));
    this.host.shell().then(
      (shell) => (this.shell = shell),
      (fault: unknown) => this.fail(fault),
    );
    const tick = (): void => {
      if (!document.hidden) this.now = performance.now();
    };
    tick();
    const timer = setInterval(tick, TICK_MS);
    document.addEventListener("visibilitychange", tick);
    return () => {
      unwatch();
      clearInterval(timer);
      document.removeEventListener("visibilitychange", tick);
    };
  }

  private hear(update: Update): void {
    const at = performance.now();
    this.known = reduce(this.known, update, at);
    if (!document.hidden) this.now = at;
    if (update.kind === "snapshot") this.noteApps(update.snapshot);
  }

  private noteApps(snapshot: Snapshot): void {
    const names = [...snapshot.recent, ...snapshot.queue.items].flatMap(({ app }) => app ?? []);
    if (names.some((name) => !this.seenHere.has(name))) {
      this.seenHere = new Set([...this.seenHere, ...names]);
    }
  }

  // --- What is shown ---

  get snapshot(): Snapshot | null {
    return this.known.snapshot;
  }

  /** Milliseconds since the snapshot came: what ages have grown by. */
  get drift(): number {
    return Math.max(0, this.now - this.known.at);
  }

  /** This moment on the gateway's clock, in Unix milliseconds. */
  get unixNow(): number {
    return (this.snapshot?.now_ms ?? 0) + this.drift;
  }

  get isLost(): boolean {
    return this.known.lost !== null || isSilent(this.known, this.now);
  }

  get language(): Language {
    return this.shell?.language ?? (navigator.language.startsWith("zh") ? "zh-CN" : "en");
  }

  /** Every app that ever called, as far as it is known. */
  get seenApps(): ReadonlySet<string> {
    return new Set([...(this.shell?.seen_apps ?? []), ...this.seenHere]);
  }

  get saying(): Saying | null {
    const snapshot = this.snapshot;
    if (snapshot === null) return null;
    const unnamed = {
      app: this.say("some.app"),
      model: this.say("some.model"),
      server: this.say("some.server"),
    };
    const saying = statusText(snapshot, unnamed, (at) => clock(at, snapshot.now_ms, this.language));
    for (const [name, value] of Object.entries(saying.params)) {
      if (typeof value === "string") saying.params[name] = shortened(value, NAME_LETTERS);
    }
    return saying;
  }

  /** The address that apps are given: the first one on loopback. */
  get base(): string {
    const listen = this.snapshot?.listen ?? [];
    const address = listen.find((one) => one.startsWith("127.")) ?? listen[0];
    return `http://${address ?? "127.0.0.1:11411"}`;
  }

  // --- Words ---

  say(key: Key, params?: Params): string {
    return word(this.language, key, params);
  }

  /** A message of the host in words. */
  message(message: Message): string {
    return messageText(this.language, message);
  }

  // --- Wishes ---

  /** Carries out a wish; says so where it fails. Gives whether it went well. */
  async wish(act: () => Promise<unknown>): Promise<boolean> {
    this.failure = null;
    this.success = null;
    try {
      await act();
      return true;
    } catch (fault) {
      this.fail(fault);
      return false;
    }
  }

  /** As `wish`, for a change of the settings. */
  async wishChange(act: () => Promise<Changed>): Promise<boolean> {
    return this.wish(async () => {
      const changed = await act();
      if (!changed.ok) throw { code: "REFUSED", message: failed(changed.reason) } satisfies Fault;
      this.tellOf(changed.note);
    });
  }

  /** What a person should know of a change that was written. */
  tellOf(note: Message | null): void {
    if (note !== null) this.success = this.message(note);
  }

  async changeShell(wish: ShellWish): Promise<void> {
    await this.wish(async () => {
      this.shell = await this.host.changeShell(wish);
    });
  }

  goTo(tab: Tab, setting: string | null = null): void {
    this.tab = tab;
    this.wanted = setting;
  }

  private fail(fault: unknown): void {
    this.failure = this.say("failed", { reason: this.message(messageOf(fault)) });
  }
}

/** What a promise of the host was rejected with, as a message. */
function messageOf(fault: unknown): Message {
  if (typeof fault === "object" && fault !== null && "message" in fault) {
    const { message } = fault as Fault | Error;
    return typeof message === "string" ? failed(message) : message;
  }
  return failed(String(fault));
}

function failed(error: string): Message {
  return { code: "failed", params: { error } };
}

const KEY = Symbol("panel");

export function setPanel(panel: Panel): void {
  setContext(KEY, panel);
}

export function usePanel(): Panel {
  return getContext<Panel>(KEY);
}
