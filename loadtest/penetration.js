// Ids that don't exist, hardly one of them twice, as from somebody who guesses; customers go on buying meanwhile.

import { SKUS } from "./lib/config.js";
import { compare } from "./lib/ledger.js";
import { ANSWERS, LEDGER, TIMES, reads, writes } from "./lib/options.js";
import { create, pick } from "./lib/skus.js";
import { browse } from "./lib/stock.js";
import { adjust } from "./lib/updates.js";

/** @type {import("k6/options").Options} */
export const options = {
  ...TIMES,
  scenarios: { guess: reads("guessing"), adjust: writes("adjusting") },
  thresholds: {
    ...ANSWERS,
    ...LEDGER,
    "http_req_duration{name:POST /stock/{sku}/adjustments}": ["p(99)<1000"],
  },
};

export const setup = () => create(SKUS);

/** @param {import("./lib/skus.js").Opening} data */
export const guessing = ({ run }) => browse(`${run}-absent-${Math.random().toString(36).slice(2)}`, false);

/** @param {import("./lib/skus.js").Opening} data */
export const adjusting = ({ run, skus }) => adjust(run, pick(skus), -1);

export const teardown = compare;
