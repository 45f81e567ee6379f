/**
 * The sentence at the top, as a pure function of the snapshot. The tray uses the same words.
 */
import type { Death, Face, Item, Message, Snapshot } from "../host/types";
import type { Key, Params } from "../i18n/translate";

/** What colour a face has, if any: work, well, shortened or waiting, broken, structure. */
export type Tone = "blue" | "green" | "amber" | "red" | "quiet";

export interface Saying {
  key: Key;
  params: Params;
}

/** The tone of a face. */
export function tone(face: Face): Tone {
  switch (face) {
    case "ready":
      return "green";
    case "busy":
    case "waiting":
    case "loading":
      return "blue";
    case "degraded":
    case "cooling":
    case "paused":
      return "amber";
    case "down":
    case "no_server":
    case "not_serving":
      return "red";
    case "starting":
      return "quiet";
  }
}

/** Names for an unknown app, model and server, in the person's language. */
export interface Unnamed {
  app: string;
  model: string;
  server: string;
}

/** What is going on, in one sentence. `clock` turns a moment into the time of day. */
export function statusText(
  snapshot: Snapshot,
  unnamed: Unnamed,
  clock: (unixMs: number) => string,
): Saying {
  const model = snapshot.upstream.model ?? unnamed.model;
  const server = snapshot.upstream.kind ?? unnamed.server;
  switch (snapshot.state) {
    case "starting":
      return { key: "face.starting", params: {} };
    case "ready":
      return { key: "face.ready", params: {} };
    case "busy":
    case "waiting":
      return working(snapshot, unnamed);
    case "degraded":
      return snapshot.pressure.level === "critical"
        ? { key: "face.degraded.critical", params: {} }
        : { key: "face.degraded", params: {} };
    case "loading":
      return { key: "face.loading", params: { model: loaded(snapshot) ?? model } };
    case "cooling":
      return { key: "face.cooling", params: { server } };
    case "down":
      return { key: "face.down", params: { server } };
    case "paused": {
      const until = snapshot.pause?.until_ms ?? null;
      return until === null
        ? { key: "face.paused.open", params: {} }
        : { key: "face.paused.until", params: { time: clock(until) } };
    }
    case "no_server":
      return { key: "face.no_server", params: {} };
    case "not_serving":
      return { key: whyNotServing(snapshot), params: {} };
  }
}

function whyNotServing(snapshot: Snapshot): Key {
  switch (portTrouble(snapshot)?.code) {
    case "port_taken":
    case "port_taken_unknown":
      return "face.not_serving";
    case "port_refused":
      return "face.not_serving.refused";
    default:
      return "face.not_serving.failed";
  }
}

const PORT_TROUBLES = new Set(["port_taken", "port_taken_unknown", "port_refused"]);

/** What keeps a gateway from serving, if it is only its port. */
export function portTrouble(snapshot: Snapshot): Message | undefined {
  return snapshot.notices.find(({ code }) => PORT_TROUBLES.has(code));
}

function working(snapshot: Snapshot, unnamed: Unnamed): Saying {
  const running = runningItems(snapshot);
  const [first] = running;
  if (first === undefined) return { key: "face.busy.waiting", params: { app: unnamed.app } };
  if (running.length > 1) return { key: "face.busy.many", params: { n: running.length } };
  const app = first.app ?? unnamed.app;
  const model = first.model ?? snapshot.upstream.model ?? unnamed.model;
  return { key: `face.busy.${first.phase}`, params: { app, model } };
}

/** The model that is being loaded: the one the request in the slot asked for. */
function loaded(snapshot: Snapshot): string | null {
  return runningItems(snapshot).find((item) => item.phase === "loading")?.model ?? null;
}

/** Running requests. */
export function runningItems(snapshot: Snapshot): Item[] {
  return snapshot.queue.items.filter((item) => item.position === 0);
}

/** Queued requests, in order. */
export function queuedItems(snapshot: Snapshot): Item[] {
  return snapshot.queue.items
    .filter((item) => item.position > 0)
    .sort((a, b) => a.position - b.position);
}

/** How the model server's process ended, as a message. */
export function deathMessage({ how, status }: Death): Message {
  switch (how) {
    case "exited":
      return { code: "process_exited", params: { status: status ?? 0 } };
    case "killed":
      return { code: "process_killed", params: { signal: status ?? 0 } };
    case "out_of_memory":
      return { code: "process_out_of_memory", params: {} };
    case "likely_out_of_memory":
      return { code: "process_likely_out_of_memory", params: {} };
    case "unknown":
      return { code: "process_gone", params: {} };
  }
}
