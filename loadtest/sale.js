// One SKU that everybody buys: every update waits for the same lock.

import { compare } from "./lib/ledger.js";
import { ANSWERS, LEDGER, TIMES, reads, writes } from "./lib/options.js";
import { create } from "./lib/skus.js";
import { browse } from "./lib/stock.js";
import { adjust } from "./lib/updates.js";

/** @type {import("k6/options").Options} */
export const options = {
  ...TIMES,
  scenarios: { look: reads("looking"), buy: writes("buying") },
  thresholds: { ...ANSWERS, ...LEDGER },
};

export const setup = () => create(1);

/** @param {import("./lib/skus.js").Opening} data */
export const looking = ({ skus }) => browse(skus[0]);

/** @param {import("./lib/skus.js").Opening} data */
export const buying = ({ run, skus }) => adjust(run, skus[0], -1);

export const teardown = compare;
