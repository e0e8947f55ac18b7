// Browsers and warehouse clerks at once: cached reads of stock, lists and ledgers beside adjustments under the lock.
// How to run it and what it asks of the service: README.md.

import exec from "k6/execution";
import { BROWSE_RATE, ADJUST_RATE, DURATION, SKUS } from "./lib/config.js";
import { pick, prepare } from "./lib/skus.js";
import { adjust, browse, list, movements } from "./lib/stock.js";

/** @type {import("k6/options").Options} */
export const options = {
  scenarios: {
    browse: {
      executor: "constant-arrival-rate",
      exec: "browsing",
      rate: BROWSE_RATE,
      timeUnit: "1s",
      duration: DURATION,
      preAllocatedVUs: 50,
      maxVUs: 500,
    },
    adjust: {
      executor: "constant-arrival-rate",
      exec: "adjusting",
      rate: ADJUST_RATE,
      timeUnit: "1s",
      duration: DURATION,
      preAllocatedVUs: 50,
      maxVUs: 500,
    },
  },
  thresholds: {
    // 404 and 409 are answers of the trade and count as expected; everything else but 2xx and 304 is a failure.
    "http_req_failed{scenario:browse}": ["rate<0.001"],
    "http_req_failed{scenario:adjust}": ["rate<0.01"],
    "http_req_duration{name:GET /stock/{sku}}": ["p(50)<10", "p(99)<100"],
    "http_req_duration{name:POST /stock/{sku}/adjustments}": ["p(50)<50", "p(99)<1000"],
    checks: ["rate==1"],
    cache_hits: ["rate>0.5"],
    dropped_iterations: ["count<10"],
  },
};

export function setup() {
  return prepare(SKUS);
}

/** @param {string[]} skus */
export function browsing(skus) {
  const turn = exec.scenario.iterationInTest % 20;
  if (turn === 0) {
    list();
  } else if (turn === 1) {
    movements(pick(skus));
  } else {
    browse(pick(skus));
  }
}

/** @param {string[]} skus */
export function adjusting(skus) {
  // Every twentieth is sent twice, as by a client that did not hear the answer.
  adjust(pick(skus), exec.scenario.iterationInTest % 20 === 0);
}
