// One SKU that everybody looks at, and whose cached value an administrator drops again and again: of the readers that
// miss it then, one asks the database.

import { compare } from "./lib/ledger.js";
import { compareLoads, count, counted, drop } from "./lib/loads.js";
import { ANSWERS, LEDGER, LOADS, TIMES, drops, reads } from "./lib/options.js";
import { create } from "./lib/skus.js";
import { browse } from "./lib/stock.js";

/** @type {import("k6/options").Options} */
export const options = {
  ...TIMES,
  scenarios: { look: reads("looking"), drop: drops("dropping", 1) },
  thresholds: { ...ANSWERS, ...LEDGER, ...LOADS },
};

export const setup = () => count(create(2));

/** @param {import("./lib/loads.js").Counted} data */
export const looking = (data) => browse(counted(data)[0]);

/** @param {import("./lib/loads.js").Counted} data */
export const dropping = (data) => drop(data, counted(data)[0]);

/** @param {import("./lib/loads.js").Counted} data */
export function teardown(data) {
  compareLoads(data);
  compare(data);
}
