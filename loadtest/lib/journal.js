// What clients were told, and where it is written down.
//
// Virtual users share no memory, and the teardown sees none of theirs. Two things reach it all the same:
// - The reference of an update is `run/client/n`, where n counts the updates that this client was told of before. So
//   the ledger alone shows an update that is missing before another (a gap) and one that is there twice. An update of
//   unknown outcome may be in the ledger, or not: its client goes on under another name, and counts from one again.
// - The metric `unsettled` gets a number for each update that a client was told of, made from SKU and reference. The
//   teardown adds the same number, negative, for each movement in the ledger. So it is 0 in all only if both are the
//   same, and that sees the last update of a client, too.

import { Rate, Trend } from "k6/metrics";

export const unsettled = new Trend("unsettled");

/** Updates that were applied, of those that were asked for. */
const applied = new Rate("applied");

/** Updates of which the client learned whether they were applied. */
const outcomesKnown = new Rate("outcomes_known");

/** How many updates of this client had an unknown outcome. */
let unknown = 0;

/** How many updates this client was told of since the last of these. */
let told = 0;

/** How often this client asked. */
let asked = 0;

/**
 * Reference and Idempotency-Key of the next update of this client.
 * @param {string} run
 */
export function next(run) {
  asked += 1;
  const reference = `${run}/${__VU}.${unknown}/${told}`;
  return { reference, key: `${reference}/${asked}` };
}

/**
 * Writes down what the client was told.
 * @param {string} reference
 * @param {string[]} skus that it changes
 * @param {boolean | undefined} outcome whether it was applied
 */
export function tell(reference, skus, outcome) {
  outcomesKnown.add(outcome !== undefined);
  applied.add(outcome === true);
  if (outcome) {
    told += 1;
    skus.forEach((sku) => unsettled.add(number(sku, reference)));
  } else if (outcome === undefined) {
    unknown += 1;
    told = 0;
  }
}

/**
 * A number between 1 and 2^31 (FNV-1a): millions of them can be added without rounding.
 * @param {string} sku
 * @param {string} reference
 */
export function number(sku, reference) {
  let hash = 0x811c9dc5;
  for (const char of `${sku} ${reference}`) {
    hash = Math.imul(hash ^ Number(char.codePointAt(0)), 0x01000193);
  }
  return (hash >>> 1) + 1;
}
