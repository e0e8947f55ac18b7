// The end of every run: what clients were told against what the service stored.

import http from "k6/http";
import { fail } from "k6";
import { Rate } from "k6/metrics";
import { TARGETS } from "./config.js";
import { number, unsettled } from "./journal.js";

/** Of the teardown, which says so once. */
const agrees = new Rate("ledger_agrees");

/**
 * Compares, SKU by SKU: opening + own deltas = quantity = sum of movements; and per client: no gap, nothing twice.
 * @param {import("./skus.js").Opening} data
 */
export function compare({ run, skus, opening }) {
  /** @type {string[]} */
  const wrong = [];
  /** @type {Map<string, Set<number>>} */
  const clients = new Map();
  for (const sku of skus) {
    const { quantity, sum, own } = read(sku, run);
    const deltas = own.reduce((total, movement) => total + movement.delta, 0);
    if (opening[sku] + deltas !== quantity || quantity !== sum) {
      const found = `quantity ${quantity}, sum of movements ${sum}`;
      wrong.push(`${sku}: opening ${opening[sku]} + own deltas ${deltas}, ${found}`);
    }
    wrong.push(...twice(sku, own));
    own.forEach(({ reference }) => {
      unsettled.add(-number(sku, reference));
      const [, client, n] = reference.split("/");
      clients.set(client, (clients.get(client) || new Set()).add(Number(n)));
    });
  }
  // A threshold on a metric without values passes.
  unsettled.add(0);
  clients.forEach((seen, client) => wrong.push(...gaps(client, seen)));
  if (clients.size === 0) {
    wrong.push("nothing was sold: no movement of this run is in the ledger");
  }
  if (wrong.length > 0) {
    disagree(`the ledger disagrees (${wrong.length}):\n${wrong.slice(0, 10).join("\n")}`);
  }
  agree();
}

/** Says that the teardown found nothing wrong. */
export const agree = () => agrees.add(true);

/**
 * Fails the run by a threshold too: what a teardown throws need not be seen by who looks at the metrics.
 * @param {string} message
 * @returns {never}
 */
export function disagree(message) {
  agrees.add(false);
  return fail(message);
}

/**
 * @param {string} sku
 * @param {Movement[]} own
 */
function twice(sku, own) {
  const seen = new Set();
  const again = own.map(({ reference }) => reference).filter((it) => seen.size === seen.add(it).size);
  return again.map((reference) => `${sku}: ${reference} was applied twice, or after it was refused`);
}

/**
 * @param {string} client
 * @param {Set<number>} seen
 */
function gaps(client, seen) {
  const missing = [];
  for (let n = 0; missing.length + seen.size > n; n += 1) {
    if (!seen.has(n)) {
      missing.push(`client ${client} was told that its update ${n} was applied; the ledger has none: it was lost`);
    }
  }
  return missing;
}

/** @typedef {{ delta: number, reference: string }} Movement */

/**
 * @param {string} sku
 * @param {string} run
 */
export function read(sku, run) {
  const answer = http.get(`${TARGETS[0]}/stock/${encodeURIComponent(sku)}`, { tags: { name: "GET /stock/{sku}" } });
  if (answer.status !== 200) {
    disagree(`can't read ${sku}: ${answer.status} ${answer.body}`);
  }
  /** @type {Movement[]} */
  const own = [];
  let sum = 0;
  let after = "";
  do {
    const query = `limit=200${after && `&after=${encodeURIComponent(after)}`}`;
    const page = http.get(`${TARGETS[0]}/stock/${encodeURIComponent(sku)}/movements?${query}`, {
      tags: { name: "GET /stock/{sku}/movements" },
    });
    if (page.status !== 200) {
      disagree(`can't read the ledger of ${sku}: ${page.status} ${page.body}`);
    }
    const { items, next } = /** @type {{ items: Movement[], next?: string | null }} */ (page.json());
    sum += items.reduce((total, { delta }) => total + delta, 0);
    own.push(...items.filter(({ reference }) => (reference || "").startsWith(`${run}/`)));
    after = next || "";
  } while (after);
  return { quantity: Number(answer.json("quantity")), sum, own };
}
