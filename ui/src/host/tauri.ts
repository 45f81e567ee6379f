/**
 * The host as the tray implements it: one command per method, one channel for snapshots.
 * Not here: what a command does.
 */
import { Channel, invoke } from "@tauri-apps/api/core";

import type { Host } from "./host";
import type {
  Changed,
  Found,
  Opens,
  PauseWish,
  Proof,
  SettingsPage,
  Shell,
  ShellWish,
  Update,
  Value,
} from "./types";

/** Connects to the tray. */
export function open(): Host {
  return {
    watch,
    pause: (wish: PauseWish) => invoke("pause", { wish }),
    resume: () => invoke("resume"),
    check: () => invoke("check"),
    unload: () => invoke<string[]>("unload"),
    stop: () => invoke("stop"),
    cancel: (id: string) => invoke("cancel", { id }),
    settings: () => invoke<SettingsPage>("settings"),
    change: (path: string, value: Value | null) => invoke<Changed>("change", { path, value }),
    allow: (kind, value) => invoke<Changed>("allow", { kind, value }),
    find: () => invoke<Found[]>("find"),
    prove: () => invoke<Proof>("prove"),
    anotherPort: () => invoke<Changed>("another_port"),
    shell: () => invoke<Shell>("shell"),
    changeShell: (wish: ShellWish) => invoke<Shell>("change_shell", { wish }),
    open: (what: Opens) => invoke("open", { what }),
    copy: (text: string) => invoke("copy", { text }),
  };
}

/** Between two tries to watch, where the host refuses: it may still be starting. */
const AGAIN_MS = 500;

/**
 * The watch is numbered by the host, so that an end that overtakes its beginning still ends it:
 * `unwatch` waits for the number.
 */
function watch(hear: (update: Update) => void): () => void {
  let over = false;
  let begun = begin();
  return () => {
    over = true;
    void begun.then((watch) => invoke("unwatch", { watch })).catch(() => undefined);
  };

  function begin(): Promise<number> {
    const channel = new Channel<Update>();
    channel.onmessage = (update) => {
      if (!over) hear(update);
    };
    const begins = invoke<number>("watch", { channel });
    begins.catch((reason: unknown) => {
      if (over) return;
      hear({ kind: "lost", reason: String(reason) });
      setTimeout(() => {
        if (!over) begun = begin();
      }, AGAIN_MS);
    });
    return begins;
  }
}
