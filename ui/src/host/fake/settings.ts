/** Settings of the fake host: the real settings, not saved. */
import type { Changed, Kind, Member, Origin, SettingsPage, Unit, Value } from "../types";
import raw from "./members.json";

interface Known {
  path: string;
  kind: Kind;
  unit: Unit;
  default: Value;
  reason: string;
}

const known = raw as Known[];

/** Members that something other than a default sets, so that each case is seen. */
const given: { [path: string]: { value: Value; origin: Origin } } = {
  "queue.max_waiting": { value: 6, origin: { from: "file", place: "config.toml:5" } },
  "upstream.base_url": {
    value: "http://127.0.0.1:11434",
    origin: { from: "variable", place: "ONESLOT_UPSTREAM__BASE_URL" },
  },
  "log.level": { value: "debug", origin: { from: "flag", place: "--log" } },
  "upstream.api_key": {
    value: { hidden: true },
    origin: { from: "file", place: "config.toml:3" },
  },
  "access.keys": { value: ["laptop"], origin: { from: "file", place: "config.toml:9" } },
};

export class FakeSettings {
  private readonly set = new Map(Object.entries(given));

  private readonly faults: string[];

  constructor(faults: string[]) {
    this.faults = faults;
  }

  page(): SettingsPage {
    const members = known.map((one): Member => {
      const { value, origin } = this.set.get(one.path) ?? {
        value: one.default,
        origin: { from: "default" } as const,
      };
      return { ...one, value, origin };
    });
    return { file: "~/.config/oneslot/config.toml", faults: this.faults, members };
  }

  change(path: string, value: Value | null): Changed {
    const member = known.find((one) => one.path === path);
    if (!member) return { ok: false, reason: `There is no setting ${path}` };
    if (value === null) this.set.delete(path);
    else {
      const reason = refuses(member, value);
      if (reason !== null) return { ok: false, reason };
      const hidden =
        member.kind.is === "secret" && value !== "" ? { hidden: true as const } : value;
      this.set.set(path, { value: hidden, origin: { from: "file", place: "config.toml:11" } });
    }
    return { ok: true, page: this.page(), note: null };
  }

  /** Adds to a list. */
  add(path: string, value: string): Changed {
    const now = this.page().members.find((one) => one.path === path)?.value;
    return this.change(path, [...(Array.isArray(now) ? now : []), value]);
  }
}

/** Two of the checks that only the gateway makes. */
function refuses(member: Known, value: Value): string | null {
  if (member.kind.is === "server" && value !== "auto" && !/^https?:\/\//.test(String(value))) {
    return 'expected "auto" or the URL of a server';
  }
  if (member.kind.is === "addresses" && !(value as string[]).every((one) => /:\d+$/.test(one))) {
    return "expected addresses with ports";
  }
  return null;
}
