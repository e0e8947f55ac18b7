// Units that go back and forth between few SKUs: opposite transfers want the same two locks.

import { compare } from "./lib/ledger.js";
import { ANSWERS, LEDGER, TIMES, writes } from "./lib/options.js";
import { create } from "./lib/skus.js";
import { transfer } from "./lib/updates.js";

/** @type {import("k6/options").Options} */
export const options = {
  ...TIMES,
  scenarios: { transfer: writes("transferring") },
  thresholds: { ...ANSWERS, ...LEDGER, "http_req_duration{name:POST /transfers}": ["p(99)<1000"] },
};

export const setup = () => create(5);

/** @param {import("./lib/skus.js").Opening} data */
export function transferring({ run, skus }) {
  const from = Math.floor(Math.random() * skus.length);
  const to = (from + 1 + Math.floor(Math.random() * (skus.length - 1))) % skus.length;
  transfer(run, skus[from], skus[to]);
}

export const teardown = compare;
