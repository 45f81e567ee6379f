import { describe, expect, it } from "vitest";

import { FIXED_NOW, scenario } from "../../src/host/fake/scenarios";
import type { Snapshot, Update } from "../../src/host/types";
import { isSilent, nothing, reduce, SILENCE_MS } from "../../src/state/reduce";

function numbered(seq: number, now_ms = FIXED_NOW): Snapshot {
  return { ...scenario("ready", FIXED_NOW).snapshot, seq, now_ms };
}
const update = (seq: number, now_ms?: number, run = "a"): Update => ({
  kind: "snapshot",
  run,
  snapshot: numbered(seq, now_ms),
  same_recent: false,
});

describe("the reducer", () => {
  it("takes the first snapshot, whatever its number", () => {
    const known = reduce(nothing, update(41), 5);
    expect(known.snapshot?.seq).toBe(41);
    expect(known.at, "ages grow from the moment it came").toBe(5);
  });

  it("drops a snapshot that was overtaken by a newer one", () => {
    const known = reduce(nothing, update(7), 1);
    expect(reduce(known, update(6), 2), "nothing is to be drawn again").toBe(known);
  });

  it("takes the later of two snapshots with the same number, since ages moved on", () => {
    const known = reduce(nothing, update(7, FIXED_NOW), 1);
    expect(reduce(known, update(7, FIXED_NOW + 250), 2).at).toBe(2);
    expect(reduce(known, update(7, FIXED_NOW - 250), 2)).toBe(known);
  });

  it("keeps the requests that ended where they are left out", () => {
    const [record] = scenario("waiting", FIXED_NOW).snapshot.recent;
    const told = (seq: number, recent: Snapshot["recent"], same_recent: boolean): Update => ({
      kind: "snapshot",
      run: "a",
      snapshot: { ...numbered(seq), recent },
      same_recent,
    });
    if (!record) throw new Error("the scenario has one");
    const known = reduce(nothing, told(1, [record], false), 1);
    const later = reduce(known, told(2, [], true), 2);
    expect(later.snapshot?.recent).toEqual([record]);
    expect(later.snapshot?.seq).toBe(2);
    expect(reduce(later, told(3, [], false), 3).snapshot?.recent).toEqual([]);
  });

  it("accepts small numbers again from another run of the gateway", () => {
    const known = reduce(nothing, update(900), 1);
    expect(reduce(known, update(1, FIXED_NOW, "b"), 2).snapshot?.seq).toBe(1);
  });

  it("keeps what it knows when the gateway is lost, and forgets the loss with the next word", () => {
    const known = reduce(nothing, update(7), 1);
    const lost = reduce(known, { kind: "lost", reason: "gone" }, 2);
    expect(lost.lost).toBe("gone");
    expect(lost.snapshot, "the last picture is better than none").toBe(known.snapshot);
    expect(reduce(lost, { kind: "lost", reason: "gone" }, 3)).toBe(lost);
    expect(reduce(lost, update(8), 4).lost).toBeNull();
  });

  it("says that it is silent only after two quiet updates were missed", () => {
    const known = reduce(nothing, update(7), 1000);
    expect(isSilent(known, 1000 + SILENCE_MS)).toBe(false);
    expect(isSilent(known, 1001 + SILENCE_MS)).toBe(true);
    expect(isSilent(nothing, 10 ** 9), "what never spoke cannot have fallen silent").toBe(false);
  });

  it("shows the same in the end for any order in which snapshots of a run come", () => {
    const came = [3, 1, 2, 5, 4].map((seq) => update(seq));
    const known = came.reduce((held, one, at) => reduce(held, one, at), nothing);
    expect(known.snapshot?.seq).toBe(5);
  });
});
