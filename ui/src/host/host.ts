/**
 * The interface to the host. The panel does not use Tauri in any other way; a fake with the same
 * interface lets it run and be tested in a plain browser.
 *
 * Every promise rejects with a `Fault`. No call changes what the panel shows by itself: the
 * change comes back in the next snapshot.
 */
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

export interface Host {
  /**
   * Sends the latest snapshot at once, then one per change, coalesced to at most four a second,
   * twice a second while an answer runs, and one each 10 s although nothing changed. The function it gives ends the watch, also before
   * the first update.
   */
  watch(hear: (update: Update) => void): () => void;

  pause(wish: PauseWish): Promise<void>;
  resume(): Promise<void>;
  /** Ends a cooldown and probes; resolves when the probe is answered. */
  check(): Promise<void>;
  /** Unloads the model, when it reaches the front of the queue; gives the names of what was unloaded. */
  unload(): Promise<string[]>;
  /** Stops the running answers; queued requests keep their position. */
  stop(): Promise<void>;
  /** Cancels one request, running or waiting. */
  cancel(id: string): Promise<void>;

  settings(): Promise<SettingsPage>;
  /** Writes one member; `null` takes it out of the file, so that the default holds again. */
  change(path: string, value: Value | null): Promise<Changed>;
  /** Puts an origin or a host on the list of those allowed. */
  allow(kind: "origin" | "host", value: string): Promise<Changed>;

  /** Looks for model servers on the usual ports and the configured address. */
  find(): Promise<Found[]>;
  /** Sends a short test prompt through the gateway. */
  prove(): Promise<Proof>;
  /** Serves on another port that is free, where the configured one is taken. */
  anotherPort(): Promise<Changed>;

  shell(): Promise<Shell>;
  changeShell(wish: ShellWish): Promise<Shell>;

  open(what: Opens): Promise<void>;
  copy(text: string): Promise<void>;
}
