/**
 * Keeps the keyboard's place where what had the focus vanishes: the row of a request that was
 * cancelled, a button that did its work, a card that is no longer needed. Left alone the focus
 * would fall to the page, and the next key to whatever is first on it.
 *
 * The focus goes to the closest place around it that is still there and is marked `data-keeps`:
 * to the place itself where that can have it, else to the first control in it. It never goes to
 * the next row, where a key that is held down would press the same button again.
 */
const CONTROLS = "input, select, textarea, button";

/** Begins to watch `page`; the function it gives ends that. */
export function keepFocus(page: HTMLElement): () => void {
  let held: HTMLElement | null = null;
  let around: HTMLElement[] = [];

  const onfocusin = ({ target }: FocusEvent): void => {
    held = target instanceof HTMLElement ? target : null;
    around = [];
    for (let at = held?.parentElement; at && page.contains(at); at = at.parentElement) {
      if (at.dataset["keeps"] !== undefined) around.push(at);
    }
  };

  const onfocusout = (): void => {
    // Given up on purpose, by a click beside everything: nothing is to be kept.
    queueMicrotask(() => {
      if (held?.isConnected && nowhere()) held = null;
    });
  };

  const watch = new MutationObserver(() => {
    if (held === null || held.isConnected || !nowhere()) return;
    held = null;
    const place = around.find((one) => one.isConnected) ?? page.querySelector("main");
    const control = place?.hasAttribute("tabindex") ? place : firstIn(place);
    control?.focus({ preventScroll: true });
  });

  page.addEventListener("focusin", onfocusin);
  page.addEventListener("focusout", onfocusout);
  watch.observe(page, { childList: true, subtree: true });
  return () => {
    watch.disconnect();
    page.removeEventListener("focusin", onfocusin);
    page.removeEventListener("focusout", onfocusout);
  };
}

function nowhere(): boolean {
  return document.activeElement === null || document.activeElement === document.body;
}

function firstIn(place: HTMLElement | null | undefined): HTMLElement | null {
  const all = [...(place?.querySelectorAll<HTMLElement>(CONTROLS) ?? [])];
  return all.find((one) => !one.matches(":disabled")) ?? null;
}
