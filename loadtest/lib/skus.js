// Which stock takes part, and how often each.

import http from "k6/http";
import { fail } from "k6";
import { TARGETS } from "./config.js";

const QUANTITY = 1000000;

/**
 * What a run begins with, for its iterations and its teardown.
 * @typedef {{ run: string, skus: string[], opening: Record<string, number> }} Opening
 */

/**
 * SKUs of this run alone, with more stock than it can sell.
 * @param {number} count
 * @returns {Opening}
 */
export function create(count) {
  const run = name();
  return open(
    run,
    Array.from({ length: count }, (_, i) => `${run}-${i}`),
  );
}

/**
 * SKUs that may exist already. Nothing else may write them during the run.
 * @param {string[]} skus
 * @returns {Opening}
 */
export function take(skus) {
  return open(name(), skus);
}

/** No two runs share it. Every reference of the run begins with it. */
const name = () => `loadtest-${Date.now().toString(36)}${Math.random().toString(36).slice(2, 6)}`;

/**
 * @param {string} run
 * @param {string[]} skus
 * @returns {Opening}
 */
function open(run, skus) {
  /** @type {Record<string, number>} */
  const opening = {};
  for (const sku of skus) {
    const body = JSON.stringify({ quantity: QUANTITY });
    const params = { headers: { "Content-Type": "application/json" }, tags: { name: "PUT /stock/{sku}" } };
    const answer = http.put(`${TARGETS[0]}/stock/${encodeURIComponent(sku)}`, body, params);
    if (answer.status !== 200 && answer.status !== 201) {
      fail(`can't set up ${sku}: ${answer.status} ${answer.body}`);
    }
    opening[sku] = QUANTITY;
  }
  return { run, skus, opening };
}

/**
 * One of them. A few are asked for much more often than the rest, as in a shop.
 * @param {string[]} skus
 */
export function pick(skus) {
  return skus[Math.floor(skus.length * Math.random() ** 3)];
}
