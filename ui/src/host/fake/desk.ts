/** The desks that scenarios start from: one never asked for anything, one in use for a while. */
import type { Record, Snapshot } from "../types";

export const GIB = 2 ** 30;
/** A fixed moment for those who compare pictures: a Tuesday, 14:05 UTC. */
export const FIXED_NOW = Date.UTC(2026, 10, 24, 14, 5, 0);

const spread = (wait: number, first: number, total: number) => ({
  wait: { p50: wait, p95: wait * 6 },
  first_token: { p50: first, p95: first * 3 },
  total: { p50: total, p95: total * 3 },
});
const nothingMeasured = () => {
  const none = { p50: null, p95: null };
  return { wait: none, first_token: none, total: none };
};

/** A desk that was never asked for anything. */
export function fresh(now: number): Snapshot {
  return {
    seq: 1,
    version: "0.1.0",
    now_ms: now,
    state: "ready",
    listen: ["127.0.0.1:11411", "[::1]:11411"],
    upstream: {
      base_url: "http://127.0.0.1:11434",
      kind: "Ollama",
      model: "qwen3:8b",
      process: {
        pid: 4711,
        name: "ollama",
        resident: 5.6 * GIB,
        executable: "/usr/local/bin/ollama",
        started_ms: now - 5 * 3_600_000,
        children: [{ pid: 4790, name: "ollama", resident: 5.4 * GIB }],
        guessed_of_user: null,
      },
      wants_key: false,
      last_death: null,
    },
    queue: { running: 0, waiting: 0, max_waiting: 4, items: [] },
    health: {
      state: "ready",
      consecutive_failures: 0,
      last_error: null,
      cooldown_ms: 0,
      last_ok_ms: now - 3000,
    },
    latency: { ...nothingMeasured(), last_15_min: nothingMeasured() },
    pressure: {
      level: "normal",
      cause: null,
      ram: { total: 32 * GIB, available: 12.5 * GIB },
      swap: { total: 8 * GIB, used: 0.4 * GIB },
      stalled: 0,
      vram: [
        {
          name: "RTX 4070",
          total: 12 * GIB,
          free: 2.2 * GIB,
          model: 8.1 * GIB,
          shared: false,
          read_ms: now - 2000,
        },
      ],
    },
    plan: { rung: 0, ceiling: null, reason: null },
    window: { size: 8192, source: "loaded", counting: "learned" },
    pause: null,
    refused_origins: [],
    recent: [],
    notices: [],
  };
}

const noRecord: Record = {
  id: "",
  app: null,
  model: "qwen3:8b",
  path: "/v1/chat/completions",
  stream: true,
  arrived: 0,
  outcome: "done",
  code: null,
  fault: null,
  queue_length: 0,
  wait_ms: null,
  first_token_ms: null,
  total_ms: 0,
  infer_ms: null,
  budget: null,
  prompt_before: null,
  prompt_after: null,
  dropped: 0,
  asked: null,
  granted: null,
  grant_reason: null,
  prompt_tokens: null,
  completion_tokens: null,
  finish: null,
  rung: 0,
  consecutive_failures: 0,
  upstream_status: null,
  upstream_kind: null,
  upstream_code: null,
  upstream_length: null,
};

/** A desk where things went on for a while. */
export function used(now: number): Snapshot {
  const snapshot = fresh(now);
  snapshot.seq = 41;
  snapshot.latency = { ...spread(1200, 900, 15_200), last_15_min: spread(1900, 800, 14_100) };
  snapshot.recent = history(now);
  return snapshot;
}

function history(now: number): Record[] {
  const done = (minutes: number, app: string, wait: number, first: number, total: number) => ({
    ...noRecord,
    app,
    arrived: now - minutes * 60_000 - total,
    wait_ms: wait,
    first_token_ms: wait + first,
    total_ms: total,
    infer_ms: total - wait,
    budget: 7136,
    prompt_before: 2240,
    prompt_after: 2240,
    prompt_tokens: 2236,
    completion_tokens: Math.round(((total - wait) / 1000) * 31),
    finish: "stop",
  });
  const rows: Record[] = [
    {
      ...done(1, "Zed", 1900, 800, 14_100),
      queue_length: 1,
      prompt_before: 9420,
      prompt_after: 6912,
      dropped: 4,
      asked: 4096,
      granted: 1024,
      grant_reason: "waiting",
      rung: 1,
    },
    {
      ...noRecord,
      app: "Open WebUI",
      arrived: now - 3 * 60_000,
      outcome: "refused",
      code: "LLM_OVERLOADED",
      fault: "capacity",
      queue_length: 4,
      total_ms: 1,
    },
    done(4, "Cline", 300, 700, 9200),
    {
      ...noRecord,
      app: "openai-python",
      arrived: now - 6 * 60_000,
      outcome: "failed",
      code: "LLM_INTERRUPTED",
      fault: "upstream",
      wait_ms: 40,
      first_token_ms: 910,
      total_ms: 6400,
      infer_ms: 6360,
      budget: 7136,
      prompt_before: 812,
      prompt_after: 812,
      consecutive_failures: 1,
    },
    done(8, "Zed", 20, 620, 11_800),
    {
      ...noRecord,
      app: "aider",
      arrived: now - 9 * 60_000,
      outcome: "failed",
      code: "LLM_UPSTREAM",
      fault: "client",
      wait_ms: 15,
      total_ms: 120,
      infer_ms: 105,
      upstream_status: 400,
      upstream_kind: "invalid_request_error",
      upstream_code: "unsupported_parameter",
      upstream_length: 214,
    },
    {
      ...noRecord,
      app: "Continue",
      arrived: now - 10 * 60_000,
      outcome: "left",
      wait_ms: 2100,
      total_ms: 3900,
      infer_ms: 1800,
    },
    done(11, "Cline", 4200, 1100, 22_000),
    done(12, "Zed", 15, 640, 8100),
    done(13, "Zed", 2600, 900, 17_400),
    {
      ...noRecord,
      app: "Claude Code",
      path: "/v1/messages",
      arrived: now - 14 * 60_000,
      outcome: "refused",
      code: "CONTEXT_OVERFLOW",
      fault: "client",
      total_ms: 4,
    },
    done(16, "Open WebUI", 700, 760, 12_600),
    done(21, "Zed", 10, 590, 7300),
  ];
  return rows.map((row, index) => ({
    ...row,
    id: (0x5f00 - index).toString(16).padStart(16, "0"),
  }));
}
