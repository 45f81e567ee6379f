/**
 * Numbers as people read them, in both languages. Pure. Widths are kept steady where a number
 * ticks: minutes and seconds as `0:42`, one decimal under ten.
 */
import type { Language } from "../host/types";

const locale = (language: Language): string => (language === "en" ? "en-US" : "zh-CN");

/** `1,024` */
export function whole(value: number, language: Language): string {
  return new Intl.NumberFormat(locale(language), { maximumFractionDigits: 0 }).format(value);
}

/** An age or a countdown that ticks: `0:42`, `12:05`, `1:02:05`. Down to the second. */
export function ticking(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const s = String(seconds % 60).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${s}`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${s}`;
}

/** A countdown: rounded up, so that it never says 0 before the time has come. */
export function left(ms: number): string {
  return ticking(Math.ceil(Math.max(0, ms) / 1000) * 1000);
}

/** A length of time that has ended: `80 ms`, `1.9 s`, `14 s`, `2 min 5 s`. */
export function took(ms: number, language: Language): string {
  const unit = language === "en" ? { ms: " ms", s: " s", min: " min", h: " h" } : ZH_UNITS;
  if (ms < 100) return `${Math.round(ms)}${unit.ms}`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)}${unit.s}`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds}${unit.s}`;
  if (seconds < 3600) return pair(seconds, 60, unit.min, unit.s);
  return pair(Math.round(seconds / 60), 60, unit.h, unit.min);
}

/** How long ago something was, in its largest unit: `3 s`, `13 min`, `2 h`. */
export function age(ms: number, language: Language): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const unit = language === "en" ? { s: " s", min: " min", h: " h" } : ZH_UNITS;
  if (seconds < 60) return `${seconds}${unit.s}`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}${unit.min}`;
  return `${Math.floor(seconds / 3600)}${unit.h}`;
}

const ZH_UNITS = { ms: " 毫秒", s: " 秒", min: " 分钟", h: " 小时" };

function pair(value: number, size: number, large: string, small: string): string {
  const rest = value % size;
  return `${Math.floor(value / size)}${large}${rest === 0 ? "" : ` ${rest}${small}`}`;
}

/** Bytes in the unit that the total has, so that two numbers side by side compare: `19.5`. */
export function gigabytes(bytes: number): string {
  const value = bytes / 2 ** 30;
  return value < 99.95 ? value.toFixed(1) : String(Math.round(value));
}

/** The time of day: `14:30`; with the day where it is not today. */
export function clock(unixMs: number, nowMs: number, language: Language): string {
  const then = new Date(unixMs);
  const same = then.toDateString() === new Date(nowMs).toDateString();
  const format = new Intl.DateTimeFormat(locale(language), {
    ...(same ? {} : { weekday: "short" }),
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
  return format.format(then);
}

/** Tokens per second: `31`, `4.2`. */
export function rate(perSecond: number): string {
  return perSecond < 9.95 ? perSecond.toFixed(1) : String(Math.round(perSecond));
}

/** A name, shortened in the middle so that both ends stay readable. */
export function shortened(name: string, limit: number): string {
  const letters = [...name];
  if (letters.length <= limit) return name;
  const head = Math.ceil((limit - 1) * 0.6);
  const tail = limit - 1 - head;
  return `${letters.slice(0, head).join("")}…${letters.slice(-tail).join("")}`;
}
