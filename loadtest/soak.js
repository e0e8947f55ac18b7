// Hours of everything: reads, adjustments and transfers, to see what grows. DURATION has another default here.

import { SKUS } from "./lib/config.js";
import { compare } from "./lib/ledger.js";
import { ANSWERS, LEDGER, TIMES, reads, writes } from "./lib/options.js";
import { create, pick } from "./lib/skus.js";
import { browse } from "./lib/stock.js";
import { adjust, transfer } from "./lib/updates.js";

const DURATION = __ENV.DURATION || "2h";

/** @type {import("k6/options").Options} */
export const options = {
  ...TIMES,
  scenarios: { browse: reads("browsing", DURATION), write: writes("writing", DURATION) },
  thresholds: { ...ANSWERS, ...LEDGER },
};

// A transfer needs two.
export const setup = () => create(Math.max(SKUS, 2));

/** @param {import("./lib/skus.js").Opening} data */
export const browsing = ({ skus }) => browse(pick(skus));

/** @param {import("./lib/skus.js").Opening} data */
export function writing({ run, skus }) {
  if (Math.random() < 0.2) {
    const from = Math.floor(Math.random() * skus.length);
    transfer(run, skus[from], skus[(from + 1) % skus.length]);
  } else {
    adjust(run, pick(skus), Math.random() < 0.8 ? -1 : 4);
  }
}

export const teardown = compare;
