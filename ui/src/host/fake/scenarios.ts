/**
 * One snapshot for every state that the panel can show. Values are chosen to look like a real
 * desk; times are reckoned back from `now`.
 */
import type { Death, Face, Item, Shell, Snapshot } from "../types";
import { FIXED_NOW, fresh, GIB, used } from "./desk.ts";

export { FIXED_NOW };

export interface Scenario {
  snapshot: Snapshot;
  shell: Partial<Shell>;
  /** The gateway falls silent after the first snapshot. */
  lost: boolean;
  /** The file of settings is broken. */
  faults: string[];
}

type Change = (snapshot: Snapshot, now: number) => void;

function item(change: Partial<Item> & { id: string; app: string }): Item {
  return {
    position: 0,
    phase: "waiting",
    age_ms: 0,
    model: "qwen3:8b",
    stream: true,
    tokens: null,
    tokens_per_s: null,
    plan: null,
    ...change,
  };
}

const answering = (): Item =>
  item({
    id: "a1",
    app: "Zed",
    phase: "answer",
    age_ms: 42_100,
    tokens: 412,
    tokens_per_s: 31.2,
    plan: {
      prompt_before: 2240,
      prompt_after: 2240,
      dropped: 0,
      asked: 4096,
      granted: null,
      grant_reason: null,
    },
  });

function line(snapshot: Snapshot, ...items: Item[]): void {
  snapshot.queue.items = items;
  snapshot.queue.running = items.filter((one) => one.position === 0).length;
  snapshot.queue.waiting = items.length - snapshot.queue.running;
}

const waiter = (position: number, app: string, age_ms: number): Item =>
  item({ id: `w${position}`, app, position, age_ms });

function shortenedAnswer(): Item {
  const one = answering();
  one.plan = {
    prompt_before: 9420,
    prompt_after: 6912,
    dropped: 4,
    asked: 4096,
    granted: 1024,
    grant_reason: "waiting",
  };
  return one;
}

function short(snapshot: Snapshot, level: "elevated" | "high" | "critical", mib: number): void {
  const total = 32 * GIB;
  const available = mib * 2 ** 20;
  const percent = Math.round((available / total) * 100);
  const size = mib < 1024 ? `${mib} MiB` : `${(mib / 1024).toFixed(1)} GiB`;
  snapshot.pressure.level = level;
  snapshot.pressure.ram = { total, available };
  const params = { available: size, total: "32.0 GiB", percent };
  snapshot.pressure.cause = { code: "ram_low", params };
  snapshot.plan = {
    elevated: { rung: 1, ceiling: 2048, reason: "pressure" as const },
    high: { rung: 2, ceiling: 1024, reason: "pressure" as const },
    critical: { rung: 3, ceiling: null, reason: "pressure" as const },
  }[level];
}

function failed(snapshot: Snapshot, now: number, state: Face, times: number): void {
  snapshot.state = state;
  const death: Death = {
    pid: 4711,
    name: "ollama",
    how: "unknown",
    status: null,
    memory_short: true,
    resident: 5.6 * GIB,
    available: 0.4 * GIB,
    lived_ms: 5 * 3_600_000,
    at_ms: now - 35_000,
  };
  snapshot.health = {
    state: "down",
    consecutive_failures: times,
    last_error: { code: "process_gone", params: {} },
    cooldown_ms: state === "cooling" ? 11_200 : 0,
    last_ok_ms: now - 38_000,
  };
  snapshot.upstream.process = null;
  snapshot.upstream.last_death = death;
  const [first] = snapshot.recent;
  if (first) {
    Object.assign(first, {
      outcome: "failed",
      code: "LLM_UNAVAILABLE",
      fault: "upstream",
      completion_tokens: null,
      consecutive_failures: times,
    });
  }
}

const changes: { [name: string]: Change } = {
  ready: () => undefined,
  prompt: (s) => {
    s.state = "busy";
    const one = answering();
    line(s, { ...one, phase: "prompt", age_ms: 4300, tokens: null, tokens_per_s: null });
  },
  busy: (s) => {
    s.state = "busy";
    line(s, answering());
  },
  waiting: (s) => {
    s.state = "waiting";
    s.plan = { rung: 1, ceiling: 2048, reason: "waiting" };
    line(s, shortenedAnswer(), waiter(1, "Open WebUI", 12_300), waiter(2, "Cline", 3100));
  },
  full: (s) => {
    s.state = "waiting";
    s.plan = { rung: 1, ceiling: 2048, reason: "waiting" };
    const apps = ["Open WebUI", "Cline", "Continue", "aider", "Zed", "openai-python"];
    const many = Array.from({ length: 12 }, (_, index) =>
      waiter(index + 1, apps[index % apps.length] ?? "", 184_000 - index * 14_000),
    );
    s.queue.max_waiting = 12;
    line(s, shortenedAnswer(), ...many);
  },
  settling: (s) => {
    s.state = "busy";
    line(s, item({ id: "a1", app: "Zed", phase: "settling", age_ms: 900 }));
  },
  elevated: (s) => {
    s.state = "degraded";
    short(s, "elevated", 2760);
  },
  degraded: (s) => {
    s.state = "degraded";
    short(s, "high", 1380);
    const one = answering();
    one.plan = {
      prompt_before: 2240,
      prompt_after: 2240,
      dropped: 0,
      asked: null,
      granted: 1024,
      grant_reason: "pressure",
    };
    line(s, one);
  },
  critical: (s) => {
    s.state = "degraded";
    short(s, "critical", 412);
    line(s, waiter(1, "Zed", 21_000));
  },
  loading: (s) => {
    s.state = "loading";
    s.health.state = "loading";
    s.window = { size: 4096, source: "assumed", counting: "bytes" };
    line(
      s,
      item({ id: "a1", app: "Open WebUI", phase: "loading", age_ms: 17_400, model: "qwen3:8b" }),
      waiter(1, "Zed", 2200),
    );
  },
  cooling: (s, now) => {
    failed(s, now, "cooling", 3);
    line(s, waiter(1, "Cline", 26_000));
  },
  down: (s, now) => {
    failed(s, now, "down", 7);
    s.health.last_error = { code: "connection_refused", params: {} };
    s.health.last_ok_ms = now - 14 * 60_000;
  },
  stalled: (s, now) => {
    s.state = "busy";
    s.health.state = "stalled";
    s.health.last_ok_ms = now - 19_000;
    line(s, { ...answering(), tokens_per_s: 4.2, age_ms: 58_000 });
  },
  paused: (s, now) => {
    s.state = "paused";
    s.pause = { until_ms: now + 42 * 60_000 };
    line(s, waiter(1, "Cline", 65_000));
  },
  paused_open: (s) => {
    s.state = "paused";
    s.pause = { until_ms: null };
    line(s, answering());
  },
  wants_key: (s) => {
    s.upstream.wants_key = true;
    s.upstream.kind = "OpenAI-compatible server";
    s.upstream.base_url = "http://192.168.1.20:8000";
    s.pressure.vram = [];
    s.upstream.process = null;
  },
  long: (s) => {
    s.state = "waiting";
    const model =
      "hf.co/unsloth/DeepSeek-R1-0528-Qwen3-8B-Instruct-GGUF-with-a-very-long-name:Q4_K_XL";
    s.upstream.model = model;
    const app = "an-app-with-a-name-that-somebody-made-far-too-long-for-anything";
    line(s, { ...shortenedAnswer(), app, model }, waiter(1, app, 3_725_000));
  },
  turned_away: (s, now) => {
    s.refused_origins = [
      { kind: "origin", value: "https://chat.example.com", count: 12, last_ms: now - 40_000 },
      { kind: "origin", value: "null", count: 1, last_ms: now - 400_000 },
      { kind: "host", value: "my-desk.lan", count: 3, last_ms: now - 3_700_000 },
    ];
  },
  notices: (s) => {
    s.notices = [
      {
        code: "several_servers",
        params: { list: "http://127.0.0.1:11434, http://127.0.0.1:1234" },
      },
      { code: "silent_truncation", params: {} },
    ];
  },
};

function withoutServer(now: number, state: Face): Snapshot {
  const snapshot = fresh(now);
  snapshot.state = state;
  snapshot.upstream = {
    base_url: null,
    kind: null,
    model: null,
    process: null,
    wants_key: false,
    last_death: null,
  };
  snapshot.window = { size: null, source: null, counting: null };
  snapshot.health = {
    state: state === "no_server" ? "down" : "unknown",
    consecutive_failures: state === "no_server" ? 1 : 0,
    last_error: state === "no_server" ? { code: "none_found", params: {} } : null,
    cooldown_ms: state === "no_server" ? 7400 : 0,
    last_ok_ms: null,
  };
  return snapshot;
}

/** Names of all scenarios. */
export const names = [
  "starting",
  "new",
  ...Object.keys(changes),
  "no_server",
  "not_serving",
  "lost",
  "daemon",
  "no_tray",
  "broken_file",
] as const;

/** The scenario of that name, at that moment; an unknown name gives the used, ready desk. */
export function scenario(name: string, now: number): Scenario {
  const plain = { shell: {}, lost: false, faults: [] };
  switch (name) {
    case "starting":
      return { ...plain, snapshot: withoutServer(now, "starting") };
    case "no_server":
      return { ...plain, snapshot: withoutServer(now, "no_server") };
    case "not_serving": {
      const snapshot = withoutServer(now, "not_serving");
      snapshot.notices = [
        {
          code: "port_taken",
          params: { address: "127.0.0.1:11411", program: "python3 (pid 2841)" },
        },
      ];
      return { ...plain, snapshot };
    }
    case "new":
      return { ...plain, snapshot: fresh(now) };
    case "lost":
      return { ...plain, snapshot: used(now), lost: true };
    case "daemon":
      return { ...plain, snapshot: used(now), shell: { gateway: "daemon" } };
    case "no_tray":
      return { ...plain, snapshot: used(now), shell: { tray: "none" } };
    case "broken_file":
      return {
        ...plain,
        snapshot: used(now),
        faults: [
          "config.toml:7: queue.max_waiting: found -1, expected a whole number from 0 to 10000",
        ],
      };
    default: {
      const snapshot = used(now);
      changes[name]?.(snapshot, now);
      return { ...plain, snapshot };
    }
  }
}
