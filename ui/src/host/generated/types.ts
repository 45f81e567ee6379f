// Made from the Rust types by a test of oneslot-tray; not to be edited.

export type Snapshot = { 
/**
 * Grows by one with each snapshot that differs.
 */
seq: number, 
/**
 * The gateway's version.
 */
version: string, 
/**
 * The moment, in Unix milliseconds.
 */
now_ms: number, 
/**
 * The one word for all of it.
 */
state: Face, 
/**
 * Addresses it listens on.
 */
listen: Array<string>, 
/**
 * The model server.
 */
upstream: Upstream, 
/**
 * Who runs and who waits.
 */
queue: Queue, 
/**
 * Whether the model server is fit to be asked.
 */
health: Health, 
/**
 * How long requests took lately.
 */
latency: Latency, 
/**
 * Memory.
 */
pressure: Pressure, 
/**
 * What the ladder would do to a request that came now.
 */
plan: Plan, 
/**
 * The context window.
 */
window: Window, 
/**
 * The pause in force, if there is one.
 */
pause: Pause | null, 
/**
 * Web pages and hosts that were turned away.
 */
refused_origins: Array<RefusedOrigin>, 
/**
 * The latest requests, newest first.
 */
recent: Array<Record>, 
/**
 * What a person should know and can act on.
 */
notices: Array<Message>, };

export type Face = "starting" | "ready" | "busy" | "waiting" | "degraded" | "loading" | "cooling" | "down" | "paused" | "no_server" | "not_serving";

export type Upstream = { 
/**
 * Its address, without user and password.
 */
base_url: string | null, 
/**
 * What it proved to be.
 */
kind: string | null, 
/**
 * The loaded model.
 */
model: string | null, 
/**
 * Its process, where the platform tells.
 */
process: Process | null, 
/**
 * It answers 401 or 403 to a probe: a key is missing or wrong.
 */
wants_key: boolean, 
/**
 * The last end of its process that was seen in this run.
 */
last_death: Death | null, };

export type Process = { 
/**
 * Its number.
 */
pid: number, 
/**
 * Its name.
 */
name: string, 
/**
 * Bytes of memory it holds, with the processes below it.
 */
resident: number | null, 
/**
 * Its program's file.
 */
executable: string | null, 
/**
 * When it was started, in Unix milliseconds.
 */
started_ms: number | null, 
/**
 * Processes below it: a server's runner or engine.
 */
children: Array<Child>, 
/**
 * It belongs to this other user (its number), and was told by its name.
 */
guessed_of_user: number | null, };

export type Queue = { 
/**
 * Requests in the slot.
 */
running: number, 
/**
 * Queued requests.
 */
waiting: number, 
/**
 * Most that may wait.
 */
max_waiting: number, 
/**
 * All of them: the running ones first, then the queue in its order.
 */
items: Array<Item>, };

export type Item = { 
/**
 * Its id.
 */
id: string, 
/**
 * The calling app.
 */
app: string | null, 
/**
 * 0 in the slot, 1 at the front of the queue.
 */
position: number, 
/**
 * What happens to it.
 */
phase: Phase, 
/**
 * Time since it arrived.
 */
age_ms: number, 
/**
 * The model asked for.
 */
model: string | null, 
/**
 * Whether it is a stream.
 */
stream: boolean, 
/**
 * Pieces of the answer so far; about one token each.
 */
tokens: number | null, 
/**
 * Pieces per second since the first.
 */
tokens_per_s: number | null, 
/**
 * What was decided for it at its turn; `null` before, and for what is relayed as it is.
 */
plan: ItemPlan | null, };

export type Phase = "waiting" | "loading" | "prompt" | "answer" | "settling";

export type Health = { 
/**
 * The state.
 */
state: HealthState, 
/**
 * Failures in a row.
 */
consecutive_failures: number, 
/**
 * The last failure.
 */
last_error: Message | null, 
/**
 * Cooldown left; 0 when there is none.
 */
cooldown_ms: number, 
/**
 * The last sign of life, in Unix milliseconds.
 */
last_ok_ms: number | null, };

export type HealthState = "unknown" | "ready" | "loading" | "down" | "stalled";

export type Pressure = { 
/**
 * The level.
 */
level: Level, 
/**
 * The reading that caused it, with its numbers.
 */
cause: Message | null, 
/**
 * Main memory.
 */
ram: Ram, 
/**
 * Swap. In use it is no pressure.
 */
swap: Swap, 
/**
 * Percent of the last ten seconds in which every program waited for memory.
 */
stalled: number | null, 
/**
 * Each graphics card that tells.
 */
vram: Array<Vram>, };

export type Level = "normal" | "elevated" | "high" | "critical";

export type Ram = { 
/**
 * All there is.
 */
total: number | null, 
/**
 * What programs could still get.
 */
available: number | null, };

export type Vram = { 
/**
 * The card's name.
 */
name: string, 
/**
 * All there is.
 */
total: number | null, 
/**
 * What is free.
 */
free: number | null, 
/**
 * What the model's processes hold of it.
 */
model: number | null, 
/**
 * It borrows the machine's memory, and is judged by that.
 */
shared: boolean, 
/**
 * When it was read, in Unix milliseconds: cards are left alone while nothing runs.
 */
read_ms: number, };

export type Plan = { 
/**
 * The rung, 0 to 3.
 */
rung: number, 
/**
 * The answer's token limit on that rung.
 */
ceiling: number | null, 
/**
 * Why it is not 0: `waiting` or `pressure`.
 */
reason: "waiting" | "pressure" | null, };

export type Window = { 
/**
 * Its size in tokens.
 */
size: number | null, 
/**
 * Where the size is from.
 */
source: string | null, 
/**
 * How prompts are counted.
 */
counting: string | null, };

export type Pause = { 
/**
 * When it ends, in Unix milliseconds; `null` when a person must end it.
 */
until_ms: number | null, };

export type RefusedOrigin = { 
/**
 * Which list it would have to be on.
 */
kind: RefusedKind, 
/**
 * As it was sent, shortened.
 */
value: string, 
/**
 * How often.
 */
count: number, 
/**
 * When last, in Unix milliseconds.
 */
last_ms: number, };

export type RefusedKind = "origin" | "host";

export type Child = { 
/**
 * Its number.
 */
pid: number, 
/**
 * Its name.
 */
name: string, 
/**
 * Bytes of memory it holds.
 */
resident: number | null, };

export type Death = { 
/**
 * Its number.
 */
pid: number, 
/**
 * Its name.
 */
name: string, 
/**
 * `exited`, `killed`, `out_of_memory`, `likely_out_of_memory` or `unknown`.
 */
how: "exited" | "killed" | "out_of_memory" | "likely_out_of_memory" | "unknown", 
/**
 * The status it exited with, or the signal that killed it.
 */
status: number | null, 
/**
 * Whether memory was short at that moment.
 */
memory_short: boolean, 
/**
 * Bytes it held when last seen.
 */
resident: number | null, 
/**
 * Bytes of RAM that were available when last read before.
 */
available: number | null, 
/**
 * From its start to its end.
 */
lived_ms: number | null, 
/**
 * When its end was seen, in Unix milliseconds.
 */
at_ms: number, };

export type Swap = { 
/**
 * All there is.
 */
total: number | null, 
/**
 * What is in use.
 */
used: number | null, };

export type ItemPlan = { 
/**
 * The prompt as it came.
 */
prompt_before: number | null, 
/**
 * The prompt as it was sent.
 */
prompt_after: number | null, 
/**
 * Messages dropped.
 */
dropped: number, 
/**
 * The answer's limit asked for.
 */
asked: number | null, 
/**
 * The limit granted, where it is not the one asked for.
 */
granted: number | null, 
/**
 * Why it is not.
 */
grant_reason: "waiting" | "pressure" | "window" | "preset" | null, };

export type Message = { 
/**
 * Which message; its texts are under `said.<code>`.
 */
code: string, 
/**
 * The values in the text, by name.
 */
params: { [name: string]: string | number }, };

export type Latency = { 
/**
 * The last 15 minutes.
 */
last_15_min: Spread, 
/**
 * From arrival to dispatch, of every request that was dispatched.
 */
wait: Quantiles, 
/**
 * From arrival to the first byte of the answer.
 */
first_token: Quantiles, 
/**
 * From arrival to the end, of answers that were whole.
 */
total: Quantiles, };

export type Spread = { 
/**
 * From arrival to dispatch, of every request that was dispatched.
 */
wait: Quantiles, 
/**
 * From arrival to the first byte of the answer.
 */
first_token: Quantiles, 
/**
 * From arrival to the end, of answers that were whole.
 */
total: Quantiles, };

export type Quantiles = { 
/**
 * Half of the requests took at most this long.
 */
p50: number | null, 
/**
 * All but one in twenty took at most this long.
 */
p95: number | null, };

export type Record = { 
/**
 * The request id, as in `x-oneslot-request-id`.
 */
id: string, 
/**
 * The calling app.
 */
app: string | null, 
/**
 * The model asked for.
 */
model: string | null, 
/**
 * The route, as the allow-list spells it: never the caller's own spelling.
 */
path: string, 
/**
 * Whether a stream was asked for.
 */
stream: boolean, 
/**
 * When it arrived, in Unix milliseconds.
 */
arrived: number, 
/**
 * How it ended.
 */
outcome: Outcome, 
/**
 * The refusal's code.
 */
code: string | null, 
/**
 * Whose fault a refusal or failure was: client, upstream, capacity or gateway.
 */
fault: "client" | "upstream" | "capacity" | "gateway" | null, 
/**
 * Requests that waited when it arrived.
 */
queue_length: number | null, 
/**
 * From arrival to dispatch.
 */
wait_ms: number | null, 
/**
 * From arrival to the first byte of the answer.
 */
first_token_ms: number | null, 
/**
 * From arrival to the end.
 */
total_ms: number, 
/**
 * From dispatch to the end: the time the slot was held for it.
 */
infer_ms: number | null, 
/**
 * Tokens the prompt was allowed.
 */
budget: number | null, 
/**
 * Tokens of the prompt as it came.
 */
prompt_before: number | null, 
/**
 * Tokens of the prompt as it was sent.
 */
prompt_after: number | null, 
/**
 * Messages dropped.
 */
dropped: number, 
/**
 * The answer's token limit asked for.
 */
asked: number | null, 
/**
 * The limit granted.
 */
granted: number | null, 
/**
 * Why less was granted than asked for.
 */
grant_reason: "waiting" | "pressure" | "window" | "preset" | null, 
/**
 * Prompt tokens as the server counted them.
 */
prompt_tokens: number | null, 
/**
 * Answer tokens as the server counted them.
 */
completion_tokens: number | null, 
/**
 * Why the model stopped.
 */
finish: string | null, 
/**
 * The degradation rung at dispatch, 0 to 3.
 */
rung: number | null, 
/**
 * Health failures in a row at the end.
 */
consecutive_failures: number, 
/**
 * The model server's status.
 */
upstream_status: number | null, 
/**
 * The type of the error it answered with.
 */
upstream_kind: string | null, 
/**
 * The code of the error it answered with.
 */
upstream_code: string | null, 
/**
 * The length of that error.
 */
upstream_length: number | null, };

export type Outcome = "done" | "refused" | "failed" | "left";

export type Update = { "kind": "snapshot", 
/**
 * Names the gateway's run: with another one the counters restart.
 */
run: string, 
/**
 * What it shows of itself.
 */
snapshot: Snapshot, 
/**
 * The requests that ended are those of the update before and are left out of this one:
 * they are most of it, and seldom change.
 */
same_recent: boolean, } | { "kind": "lost", 
/**
 * Why.
 */
reason: string, };

export type PauseWish = { 
/**
 * How long; the host reckons the end.
 */
span: "15m" | "1h" | "tomorrow" | "open", 
/**
 * Stop the running answer as well.
 */
stop: boolean, 
/**
 * Unload the model as well.
 */
unload: boolean, };

export type SettingsPage = { file: string, faults: Array<string>, members: Array<Member>, };

export type Member = { path: string, kind: Kind, unit: Unit, reason: string, value: Value, default: Value, origin: Origin, };

export type Kind = { "is": "bool" } | { "is": "whole", 
/**
 * The least.
 */
min: number, 
/**
 * The greatest.
 */
max: number, } | { "is": "number", 
/**
 * The numbers.
 */
of: Array<number>, } | { "is": "word", 
/**
 * The words.
 */
of: Array<string>, } | { "is": "auto_or", 
/**
 * The least.
 */
min: number, 
/**
 * The greatest.
 */
max: number, } | { "is": "text" } | { "is": "secret" } | { "is": "server" } | { "is": "addresses" } | { "is": "hosts" } | { "is": "origins" } | { "is": "keys" };

export type Unit = "" | "ms" | "s" | "tokens" | "requests";

export type Value = boolean | number | string | Array<string> | { 
/**
 * Always true.
 */
hidden: true, };

export type Origin = { "from": "default" } | { "from": "preset" } | { "from": "file", 
/**
 * File and line.
 */
place: string, } | { "from": "variable", 
/**
 * The variable.
 */
place: string, } | { "from": "flag", 
/**
 * The flag.
 */
place: string, };

export type Changed = { 
/**
 * Always true.
 */
ok: true, 
/**
 * All settings after it.
 */
page: SettingsPage, 
/**
 * What a person should know of how it was written.
 */
note: Message | null, } | { 
/**
 * Always false.
 */
ok: false, 
/**
 * Why not.
 */
reason: string, };

export type Found = { base_url: string, kind: string, models: Array<string>, in_use: boolean, };

export type Proof = { 
/**
 * Always true.
 */
ok: true, 
/**
 * Which model answered.
 */
model: string, 
/**
 * To the first piece of the answer.
 */
first_token_ms: number, 
/**
 * To its end.
 */
total_ms: number, 
/**
 * The answer.
 */
text: string, } | { 
/**
 * Always false.
 */
ok: false, 
/**
 * The refusal's code.
 */
code: string, 
/**
 * What happened, in a sentence.
 */
message: string, };

export type Shell = { platform: Platform, gateway: Gateway, tray: TrayState, language: Language, language_wish: LanguageWish, start_at_login: boolean, notify: NotifySwitches, seen_apps: Array<string>, };

export type Platform = "linux" | "macos" | "windows";

export type Gateway = "own" | "daemon";

export type TrayState = "shown" | "none";

export type Language = "en" | "zh-CN";

export type LanguageWish = "auto" | "en" | "zh-CN";

export type NotifySwitches = { 
/**
 * The model server stopped answering.
 */
down: boolean, 
/**
 * Memory is short.
 */
memory: boolean, 
/**
 * No model server was found.
 */
no_server: boolean, 
/**
 * The gateway does not serve.
 */
not_serving: boolean, };

export type NotifyWish = { 
/**
 * The model server stopped answering.
 */
down?: boolean, 
/**
 * Memory is short.
 */
memory?: boolean, 
/**
 * No model server was found.
 */
no_server?: boolean, 
/**
 * The gateway does not serve.
 */
not_serving?: boolean, };

export type ShellWish = { 
/**
 * The language.
 */
language_wish?: LanguageWish, 
/**
 * Whether to start at login.
 */
start_at_login?: boolean, 
/**
 * Which incidents are reported.
 */
notify?: NotifyWish, };

export type Opens = "logs" | "config" | "tray_help";

export type Fault = { 
/**
 * What kind of failure it is.
 */
code: Reason, 
/**
 * What happened.
 */
message: Message, };

export type Reason = "NOT_SERVING" | "NOT_FOUND" | "REFUSED" | "FAILED";
