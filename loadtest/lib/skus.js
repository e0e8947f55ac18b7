// Which stock takes part, and how often each.

import http from "k6/http";
import { fail } from "k6";
import { TARGETS } from "./config.js";

const PAGE = 200;
const QUANTITY = 1000000;

/**
 * SKUs that exist, as many as asked for: those in the service, filled up with our own.
 * @param {number} count
 * @returns {string[]}
 */
export function prepare(count) {
  const skus = existing(count);
  for (let i = skus.length; i < count; i += 1) {
    const sku = `loadtest-${i}`;
    const body = JSON.stringify({ quantity: QUANTITY });
    const params = { headers: { "Content-Type": "application/json" }, tags: { name: "PUT /stock/{sku}" } };
    const answer = http.put(`${TARGETS[0]}/stock/${encodeURIComponent(sku)}`, body, params);
    if (answer.status !== 200 && answer.status !== 201) {
      fail(`can't set up ${sku}: ${answer.status} ${answer.body}`);
    }
    skus.push(sku);
  }
  return skus;
}

/**
 * @param {number} count
 * @returns {string[]}
 */
function existing(count) {
  /** @type {string[]} */
  const skus = [];
  let after = "";
  do {
    const query = `limit=${Math.min(PAGE, count)}${after && `&after=${encodeURIComponent(after)}`}`;
    const answer = http.get(`${TARGETS[0]}/stock?${query}`, { tags: { name: "GET /stock" } });
    if (answer.status !== 200) {
      fail(`can't list stock: ${answer.status} ${answer.body}`);
    }
    const page = /** @type {{ items: { sku: string }[], next?: string | null }} */ (answer.json());
    skus.push(...page.items.map((item) => item.sku));
    after = page.next || "";
  } while (after && skus.length < count);
  return skus.slice(0, count);
}

/**
 * One of them. A few are asked for much more often than the rest, as in a shop.
 * @param {string[]} skus
 */
export function pick(skus) {
  return skus[Math.floor(skus.length * Math.random() ** 3)];
}
