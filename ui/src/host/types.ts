/**
 * What the host and the panel exchange, as plain values: the snapshot as `GET /oneslot/status` has it, and what
 * the tray shell adds. Times are milliseconds, sizes bytes; a member never vanishes, unknown is
 * `null`. Nothing here has behaviour.
 */

// --- The snapshot -----------------------------------------------------------------------------

export type Face =
  | "starting"
  | "ready"
  | "busy"
  | "waiting"
  | "degraded"
  | "loading"
  | "cooling"
  | "down"
  | "paused"
  | "no_server"
  | "not_serving";

export interface Snapshot {
  seq: number;
  version: string;
  now_ms: number;
  state: Face;
  listen: string[];
  upstream: Upstream;
  queue: Queue;
  health: Health;
  latency: Latency;
  pressure: Pressure;
  plan: Plan;
  window: Window;
  pause: Pause | null;
  refused_origins: RefusedOrigin[];
  recent: Record[];
  notices: Message[];
}

export interface Upstream {
  base_url: string | null;
  kind: string | null;
  model: string | null;
  process: Process | null;
  wants_key: boolean;
  /** The last end of its process that was seen in this run. */
  last_death: Death | null;
}

export interface Process {
  pid: number;
  name: string;
  /** With the processes below it. */
  resident: number | null;
  executable: string | null;
  started_ms: number | null;
  children: Child[];
  /** It belongs to this other user, and was told by its name. */
  guessed_of_user: number | null;
}

export interface Child {
  pid: number;
  name: string;
  resident: number | null;
}

/** How the model server's process ended. */
export interface Death {
  pid: number;
  name: string;
  how: "exited" | "killed" | "out_of_memory" | "likely_out_of_memory" | "unknown";
  status: number | null;
  memory_short: boolean;
  resident: number | null;
  available: number | null;
  lived_ms: number | null;
  at_ms: number;
}

export interface Queue {
  running: number;
  waiting: number;
  max_waiting: number;
  items: Item[];
}

export type Phase = "waiting" | "loading" | "prompt" | "answer" | "settling";

export interface Item {
  id: string;
  app: string | null;
  position: number;
  phase: Phase;
  age_ms: number;
  model: string | null;
  stream: boolean;
  tokens: number | null;
  tokens_per_s: number | null;
  /** What was decided for it at its turn; `null` before, and for what is relayed as it is. */
  plan: ItemPlan | null;
}

/** What was decided for a request when it got its turn. Named as in its record. */
export interface ItemPlan {
  prompt_before: number | null;
  prompt_after: number | null;
  dropped: number;
  asked: number | null;
  granted: number | null;
  grant_reason: GrantReason | null;
}

export type GrantReason = "waiting" | "pressure" | "window" | "preset";

export type HealthState = "unknown" | "ready" | "loading" | "down" | "stalled";

export interface Health {
  state: HealthState;
  consecutive_failures: number;
  last_error: Message | null;
  cooldown_ms: number;
  last_ok_ms: number | null;
}

export interface Quantiles {
  p50: number | null;
  p95: number | null;
}

export interface Spread {
  wait: Quantiles;
  first_token: Quantiles;
  total: Quantiles;
}

export interface Latency extends Spread {
  last_15_min: Spread;
}

export type Level = "normal" | "elevated" | "high" | "critical";

export interface Pressure {
  level: Level;
  cause: Message | null;
  ram: { total: number | null; available: number | null };
  /** In use it is no pressure. */
  swap: { total: number | null; used: number | null };
  /** Percent of the last ten seconds in which every program waited for memory. */
  stalled: number | null;
  vram: Vram[];
}

export interface Vram {
  name: string;
  total: number | null;
  free: number | null;
  /** What the model's processes hold of it. */
  model: number | null;
  /** It borrows the machine's memory, and is judged by that. */
  shared: boolean;
  /** When it was read: cards are left alone while nothing runs. */
  read_ms: number;
}

export interface Plan {
  rung: number;
  ceiling: number | null;
  reason: "waiting" | "pressure" | null;
}

export interface Window {
  size: number | null;
  source: string | null;
  counting: string | null;
}

export interface Pause {
  until_ms: number | null;
}

export interface RefusedOrigin {
  kind: "origin" | "host";
  value: string;
  count: number;
  last_ms: number;
}

export type Outcome = "done" | "refused" | "failed" | "left";

export interface Record {
  id: string;
  app: string | null;
  model: string | null;
  path: string;
  stream: boolean;
  arrived: number;
  outcome: Outcome;
  code: string | null;
  fault: "client" | "upstream" | "capacity" | "gateway" | null;
  queue_length: number | null;
  wait_ms: number | null;
  first_token_ms: number | null;
  total_ms: number;
  infer_ms: number | null;
  budget: number | null;
  prompt_before: number | null;
  prompt_after: number | null;
  dropped: number;
  asked: number | null;
  granted: number | null;
  grant_reason: GrantReason | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  finish: string | null;
  rung: number | null;
  consecutive_failures: number;
  upstream_status: number | null;
  upstream_kind: string | null;
  upstream_code: string | null;
  upstream_length: number | null;
}

/** A message as data: its text is under `said.<code>`, with `{name}` for a value. */
export interface Message {
  code: string;
  params: { [name: string]: string | number };
}

// --- The channel ------------------------------------------------------------------------------

/** What the one channel carries, at most four times a second. */
export type Update =
  /** `run` identifies the gateway's process: the numbers start again with another one. */
  | {
      kind: "snapshot";
      run: string;
      snapshot: Snapshot;
      /** `recent` is that of the update before, and is left out of this one. */
      same_recent: boolean;
    }
  /** The gateway cannot be heard: it ended, or the daemon behind the tray did. */
  | { kind: "lost"; reason: string };

// --- Wishes and answers -----------------------------------------------------------------------

export interface PauseWish {
  /** How long; `tomorrow` is 08:00 local time, `open` until resumed. The host reckons the end. */
  span: "15m" | "1h" | "tomorrow" | "open";
  /** Stop the running answer as well. */
  stop: boolean;
  /** Unload the model as well. */
  unload: boolean;
}

/** What a member takes. */
export type Kind =
  | { is: "bool" }
  | { is: "whole"; min: number; max: number }
  | { is: "number"; of: number[] }
  | { is: "word"; of: string[] }
  | { is: "auto_or"; min: number; max: number }
  | { is: "text" }
  | { is: "secret" }
  | { is: "server" }
  | { is: "addresses" }
  | { is: "hosts" }
  | { is: "origins" }
  | { is: "keys" };

export type Unit = "" | "ms" | "s" | "tokens" | "requests";

/** A value as it would be written. A credential that is set is `{hidden: true}`, never its text. */
export type Value = boolean | number | string | string[] | { hidden: true };

/** Who set a member. `variable` and `flag` win over the file, so the panel cannot change them. */
export type Origin =
  | { from: "default" }
  | { from: "preset" }
  | { from: "file"; place: string }
  | { from: "variable"; place: string }
  | { from: "flag"; place: string };

export interface Member {
  path: string;
  kind: Kind;
  unit: Unit;
  reason: string;
  value: Value;
  /** What the preset in force sets it to. */
  default: Value;
  origin: Origin;
}

export interface SettingsPage {
  /** The file that a change is written to. */
  file: string;
  /** Why the file as it stands is not in use; each with its place. The last good copy serves. */
  faults: string[];
  members: Member[];
}

/** A refused change leaves everything as it was. */
export type Changed =
  | {
      ok: true;
      page: SettingsPage;
      /** What a person should know of how it was written. */
      note: Message | null;
    }
  | { ok: false; reason: string };

/** A model server that was found. */
export interface Found {
  base_url: string;
  kind: string;
  models: string[];
  in_use: boolean;
}

/** What came of a test prompt sent through the gateway itself. */
export type Proof =
  | { ok: true; model: string; first_token_ms: number; total_ms: number; text: string }
  | { ok: false; code: string; message: string };

/** What the tray shell knows and keeps, beside the gateway. */
export interface Shell {
  platform: "linux" | "macos" | "windows";
  /** `own`: the gateway runs in this program; `daemon`: this is the face of a running oneslotd. */
  gateway: "own" | "daemon";
  /** `none`: the desktop has no place for tray icons. */
  tray: "shown" | "none";
  /** The language in use, and the wish (`auto` follows the system). */
  language: Language;
  language_wish: Language | "auto";
  start_at_login: boolean;
  notify: NotifySwitches;
  /** Apps that ever called, by the names that records use. */
  seen_apps: string[];
}

export type Language = "en" | "zh-CN";

/** One switch per kind of lasting incident. */
export interface NotifySwitches {
  down: boolean;
  memory: boolean;
  no_server: boolean;
  not_serving: boolean;
}

/** A change of what the shell keeps; absent members stay. */
export interface ShellWish {
  language_wish?: Language | "auto";
  start_at_login?: boolean;
  notify?: Partial<NotifySwitches>;
}

/** Things that the host opens outside of the panel. */
export type Opens = "logs" | "config" | "tray_help";

/** How a command fails: the kind of failure, and a message. */
export interface Fault {
  code: string;
  message: Message;
}
