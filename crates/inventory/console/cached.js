// What is cached of one SKU: a row for each tier, and a sentence about its load.

import { element, table } from "./dom.js";
import { count, moment, seconds, span } from "./format.js";

const COLUMNS = ["Where", "State", "Age", "Expires", "Load took", "Version", "Tags"];

/** The elements for the answer of `/admin/cache/{sku}` that came at a moment. */
export function cached({ sku, local, redis, fetching, lease_ms: lease }, at) {
  const title = element("h3", { tabindex: "-1" }, "Cached of ");
  title.append(element("span", { class: "name" }, sku), `, at ${moment(at)}`);
  const rows = [row("Memory of this instance", "local", local), row("Redis", "redis", redis)];
  const load = element("p", { "data-load": "" }, loading(fetching, lease));
  return [title, element("div", { class: "table found" }, table({}, COLUMNS, rows)), load];
}

function row(name, tier, kept) {
  const cells = kept.state === "kept" ? figures(kept) : [WORDS[kept.state]];
  return element(
    "tr",
    { "data-tier": tier },
    element("th", { scope: "row" }, name),
    ...cells.map((text, place) => element("td", { "data-head": COLUMNS[place + 1] }, text)),
  );
}

const WORDS = {
  empty: "nothing",
  unreadable: "a value that can't be read: it is damaged or of another version",
  unavailable: "Redis does not answer",
};

function figures({ absent, age_ms: age, ttl_ms: ttl, stale_ms: stale, load_ms: load, version, tags }) {
  return [
    absent ? "that there is no such SKU" : "a value",
    `${time(age)} old`,
    stale === null ? `in ${time(ttl)}` : `${time(stale)} ago`,
    load === 0 ? "under 1 ms" : seconds(load / 1000),
    version === null ? "no version" : `version ${count(version)}`,
    tags.length ? tags.join(", ") : "no tags",
  ];
}

function loading(fetching, lease) {
  if (fetching) return "This instance is fetching it now.";
  return lease === null
    ? "Nobody loads it now."
    : `Another instance loads it now. Others wait for that load for at most ${time(lease)}.`;
}

const time = (ms) => (ms < 60_000 ? seconds(ms / 1000) : span(ms / 1000));
