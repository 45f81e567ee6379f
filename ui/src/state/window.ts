/**
 * The window as a bar: what of the chat was cut, what was sent, what is kept for the answer.
 * Pure. The numbers are those of the request in the slot, else of the latest one measured.
 */
import type { ItemPlan, Snapshot } from "../host/types";
import { runningItems } from "./status_text";

export interface WindowBar {
  /** Whose numbers these are. */
  app: string | null;
  running: boolean;
  /** Tokens that did not fit and were not sent. */
  cut: number;
  /** Tokens sent. */
  prompt: number;
  /** Tokens the answer may take. */
  answer: number;
  /** Tokens of the window that are left. */
  free: number;
  size: number;
}

/** The bar, or `null` where nothing has been measured or the window is not known. */
export function windowBar(snapshot: Snapshot): WindowBar | null {
  const size = snapshot.window.size;
  // On a guess nothing was cut, so a guess is no measure for what was.
  if (size === null || size <= 0 || snapshot.window.source === "assumed") return null;
  const running = runningItems(snapshot).find((item) => item.plan?.prompt_after != null);
  if (running?.plan) return bar(size, running.app, true, running.plan);
  const model = snapshot.upstream.model;
  const latest = snapshot.recent.find(
    (record) => record.prompt_after !== null && (record.model ?? model) === model,
  );
  return latest ? bar(size, latest.app, false, latest) : null;
}

type Numbers = Pick<ItemPlan, "prompt_before" | "prompt_after" | "granted" | "asked">;

function bar(size: number, app: string | null, running: boolean, numbers: Numbers): WindowBar {
  const prompt = Math.min(numbers.prompt_after ?? 0, size);
  const cut = Math.max(0, (numbers.prompt_before ?? prompt) - prompt);
  const room = size - prompt;
  const answer = Math.min(numbers.granted ?? numbers.asked ?? room, room);
  return { app, running, cut, prompt, answer, free: room - answer, size };
}
