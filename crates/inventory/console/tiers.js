// Which part of the reads each tier of the cache answers, from the snapshots.

import { element, say } from "./dom.js";
import { count, percent, perSecond, seconds } from "./format.js";

const READS = "stockade_cache_requests_total";
const LATELY_S = 60;

const ROWS = [
  ["Memory of the instance", "hit_local"],
  ["Redis", "hit_redis"],
  ["A remembered absence", "null"],
  ["The filter: there is no such SKU", "bloom_reject"],
  ["An expired value, within its grace", "stale"],
  ["Its own load from Postgres", "load"],
  ["The load of another read", "collapsed"],
  ["Nothing: refused to protect Postgres", "shed"],
  ["Nothing: failed", "error"],
];

export class Tiers {
  #cells;
  #sum;

  constructor(rows, sum) {
    this.#sum = sum;
    this.#cells = ROWS.map(([name, outcome]) => {
      const lately = element("td", { "data-head": "last minute" });
      const ever = element("td", { "data-head": "since the start" });
      rows.append(element("tr", { "data-outcome": outcome }, element("th", { scope: "row" }, name), lately, ever));
      return { lately, ever };
    });
  }

  /** Forgets all figures. */
  clear() {
    for (const { lately, ever } of this.#cells) [lately, ever].forEach((cell) => say(cell, "–"));
    say(this.#sum, "");
  }

  show(history) {
    const [risen, reads] = [history.rise(READS, LATELY_S), history.now(READS)];
    ROWS.forEach(([, outcome], row) => {
      const is = (key) => key === outcome;
      const { lately, ever } = this.#cells[row];
      say(lately, part(history.rise(READS, LATELY_S, is), risen));
      say(ever, part(history.now(READS, is), reads));
    });
    const bound = seconds(history.now("stockade_cache_local_staleness_bound_seconds"));
    const loads = perSecond(history.rate("stockade_cache_loads_total", LATELY_S));
    say(this.#sum, `Values in memory miss writes for ${bound} at most. Loads from Postgres: ${loads}.`);
  }
}

function part(some, all) {
  return all > 0 ? `${percent(some / all)} · ${count(some)} reads` : "no reads";
}
