/**
 * What the panel knows, as a pure function of what came through the channel. No clock: the moment
 * of arrival is an argument.
 *
 * Invariant: what is shown never goes back in time. A snapshot with a smaller number of the same
 * run is dropped; with an equal number (only ages moved) the later moment wins.
 */
import type { Snapshot, Update } from "../host/types";

export interface Known {
  /** Which run of the gateway the snapshot is from. */
  run: string | null;
  snapshot: Snapshot | null;
  /** When the snapshot arrived, on the panel's monotonic clock. */
  at: number;
  /** Why the gateway cannot be heard; `null` while it can. */
  lost: string | null;
}

export const nothing: Known = { run: null, snapshot: null, at: 0, lost: null };

/** Takes in one update that arrived at `at`. Gives the same object when nothing is to change. */
export function reduce(known: Known, update: Update, at: number): Known {
  switch (update.kind) {
    case "lost":
      return known.lost === update.reason ? known : { ...known, lost: update.reason };
    case "snapshot": {
      const { run, snapshot } = update;
      const held = known.run === run ? known.snapshot : null;
      if (held !== null && isStale(held, snapshot)) return known;
      const recent = update.same_recent && held !== null ? held.recent : snapshot.recent;
      return { run, snapshot: { ...snapshot, recent }, at, lost: null };
    }
  }
}

function isStale(held: Snapshot, came: Snapshot): boolean {
  if (came.seq !== held.seq) return came.seq < held.seq;
  return came.now_ms < held.now_ms;
}

/** Silence after which the panel says that it hears nothing: two quiet updates missed. */
export const SILENCE_MS = 25_000;

/** Whether nothing came for so long that what is shown may be wrong. */
export function isSilent(known: Known, now: number): boolean {
  return known.snapshot !== null && now - known.at > SILENCE_MS;
}
