// What a run that drops cached values costs the database: loads, as every instance counts them.
//
// A value that was dropped is loaded under a lease. The cache gives out one lease for a key until it has a value again,
// whatever the number of readers and instances. So a key is loaded once for each time that it was dropped, and once
// before. More loads come only of reads that Redis left without an answer for REDIS_TIMEOUT, and of loads that outlast
// their lease; a tenth more is allowed for them.

import http from "k6/http";
import { check, fail } from "k6";
import { Rate } from "k6/metrics";
import { ADMIN_TOKEN, OPS, TARGETS } from "./config.js";
import { adjust } from "./updates.js";

/** Of the teardown, which says so once. */
const bounded = new Rate("loads_bounded");

/** Loads in place of one. */
const ALLOWED = 1.1;

/**
 * The last SKU of the opening counts how often something was dropped: virtual users share no memory with the teardown.
 * @typedef {import("./skus.js").Opening & { loads: number }} Counted
 */

const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` };

/**
 * Fails at once if the operators' ports are not those of all instances, or take another token.
 * @param {import("./skus.js").Opening} opening
 * @returns {Counted}
 */
export function count(opening) {
  if (OPS.length < TARGETS.length) {
    fail(`OPS names ${OPS.length} operators' ports for ${TARGETS.length} instances: name all, separated by commas`);
  }
  const answer = http.get(`${OPS[0]}/admin/cache`, { headers, tags: { name: "GET /admin/cache" } });
  if (answer.status !== 200) {
    fail(`${OPS[0]}/admin/cache answered ${answer.status}: give the script and the instances the same ADMIN_TOKEN`);
  }
  return { ...opening, loads: loads() };
}

/**
 * The SKUs whose loads are counted.
 * @param {Counted} data
 */
export const counted = ({ skus }) => skus.slice(0, -1);

/**
 * Drops the value of one SKU, or all.
 * @param {Counted} data
 * @param {string} [sku]
 */
export function drop({ run, skus }, sku) {
  // Counted first: one that is counted and then fails allows more loads, never fewer.
  adjust(run, skus[skus.length - 1], -1);
  const answer = sku
    ? http.del(`${OPS[0]}/admin/cache/${encodeURIComponent(sku)}`, null, {
        headers,
        tags: { name: "DELETE /admin/cache/{sku}" },
      })
    : http.del(`${OPS[0]}/admin/cache`, null, { headers, tags: { name: "DELETE /admin/cache" } });
  check(answer, { "the cache was told": (r) => r.status === 204 });
}

/**
 * Compares the loads since the setup with the times that something was dropped. To be called before anything else is
 * read: that would be a load.
 * @param {Counted} data
 */
export function compareLoads(data) {
  const made = loads() - data.loads;
  const sku = data.skus[data.skus.length - 1];
  const answer = http.get(`${TARGETS[0]}/stock/${encodeURIComponent(sku)}`, { tags: { name: "GET /stock/{sku}" } });
  if (answer.status !== 200) {
    bounded.add(false);
    fail(`can't read how often something was dropped, which is in ${sku}: ${answer.status} ${answer.body}`);
  }
  const dropped = data.opening[sku] - Number(answer.json("quantity"));
  const keys = counted(data).length;
  const most = keys * (dropped + 1) * ALLOWED;
  const found = `${keys} SKUs, dropped ${dropped} times: ${made} loads`;
  const wrong =
    made > most
      ? `the database was asked too often: ${found}, at most ${most.toFixed(1)} are allowed`
      : made < dropped / 2 && `what was dropped was not loaded again: ${found}. Name all instances in OPS`;
  bounded.add(!wrong);
  if (wrong) {
    fail(wrong);
  }
}

/** Loads of all instances since they started, however they ended. */
function loads() {
  return OPS.reduce((sum, ops) => {
    const answer = http.get(`${ops}/metrics`, { tags: { name: "GET /metrics" } });
    const series = String(answer.body).match(/^stockade_cache_loads_total\{.*\} \d+$/gm);
    return series
      ? series.reduce((of, line) => of + Number(line.split(" ").pop()), sum)
      : fail(`no metrics at ${ops} (${answer.status}): OPS names the operators' port of every instance`);
  }, 0);
}
