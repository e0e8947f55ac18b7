// Numbers as people read them, each with its unit.

const NONE = "–";

function digits(value) {
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size >= 100 || size === 0) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

const is = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/** A whole number. */
export const count = (value) => (is(value) ? Math.round(value).toLocaleString("en") : NONE);

/** So many units. */
export const units = (value) => `${count(value)} ${value === 1 ? "unit" : "units"}`;

/** So many a second. */
export const perSecond = (value) => (is(value) ? `${digits(value)} /s` : NONE);

/** A share of one. */
export function percent(value) {
  if (!is(value)) return NONE;
  const hundred = value * 100;
  // 99.97 % is not 100 %.
  return `${hundred > 99 && hundred < 100 ? (Math.floor(hundred * 100) / 100).toFixed(2) : digits(hundred)} %`;
}

/** A time that is given in seconds. */
export function seconds(value) {
  if (!is(value)) return NONE;
  if (value === Infinity) return "over 10 s";
  if (value === 0) return "0 s";
  if (value < 0.001) return `${digits(value * 1e6)} µs`;
  return value < 1 ? `${digits(value * 1e3)} ms` : `${digits(value)} s`;
}

/** A time that may be hours or days, given in seconds. */
export function span(value) {
  if (!is(value)) return NONE;
  const whole = Math.max(0, Math.floor(value));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** A date and a time, of milliseconds since 1970 or the text of a moment. */
export const moment = (at) => new Date(at).toLocaleString("en-GB");

/** Memory, given in bytes. */
export const bytes = (value) => (is(value) ? `${digits(value / 1048576)} MiB` : NONE);
