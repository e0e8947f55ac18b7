// Everything that is cached goes at once, again and again, while customers look around: each SKU is loaded once each
// time, and reads wait for that load instead of asking the database themselves.

import { SKUS } from "./lib/config.js";
import { compare } from "./lib/ledger.js";
import { compareLoads, count, counted, drop } from "./lib/loads.js";
import { ANSWERS, LEDGER, LOADS, TIMES, drops, reads } from "./lib/options.js";
import { create, pick } from "./lib/skus.js";
import { browse } from "./lib/stock.js";

/** @type {import("k6/options").Options} */
export const options = {
  ...TIMES,
  scenarios: { browse: reads("browsing"), drop: drops("dropping", 5) },
  thresholds: { ...ANSWERS, ...LEDGER, ...LOADS },
};

// Few, so that most are read more than once between two times.
export const setup = () => count(create(Math.min(SKUS, 20) + 1));

/** @param {import("./lib/loads.js").Counted} data */
export const browsing = (data) => browse(pick(counted(data)));

/** @param {import("./lib/loads.js").Counted} data */
export const dropping = (data) => drop(data);

/** @param {import("./lib/loads.js").Counted} data */
export function teardown(data) {
  compareLoads(data);
  compare(data);
}
