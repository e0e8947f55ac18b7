// Browsers and warehouse clerks at once: cached reads of stock, lists and ledgers, and adjustments under the lock.
// How to run it and what it asks of the service: README.md.

import exec from "k6/execution";
import { SKUS } from "./lib/config.js";
import { compare } from "./lib/ledger.js";
import { ANSWERS, LEDGER, TIMES, reads, writes } from "./lib/options.js";
import { create, pick } from "./lib/skus.js";
import { browse, list, movements } from "./lib/stock.js";
import { adjust } from "./lib/updates.js";

/** @type {import("k6/options").Options} */
export const options = {
  ...TIMES,
  scenarios: { browse: reads("browsing"), adjust: writes("adjusting") },
  thresholds: {
    ...ANSWERS,
    ...LEDGER,
    "http_req_duration{name:GET /stock/{sku}}": ["p(50)<10", "p(99)<100"],
    "http_req_duration{name:POST /stock/{sku}/adjustments}": ["p(50)<50", "p(99)<1000"],
    cache_hits: ["rate>0.5"],
  },
};

export const setup = () => create(SKUS);

/** @param {import("./lib/skus.js").Opening} data */
export function browsing({ skus }) {
  const turn = exec.scenario.iterationInTest % 20;
  if (turn === 0) {
    list();
  } else if (turn === 1) {
    movements(pick(skus));
  } else {
    browse(pick(skus));
  }
}

/** @param {import("./lib/skus.js").Opening} data */
export function adjusting({ run, skus }) {
  // Every twentieth is sent twice.
  adjust(run, pick(skus), Math.random() < 0.8 ? -1 : 4, exec.scenario.iterationInTest % 20 === 0);
}

export const teardown = compare;
