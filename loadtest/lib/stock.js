// What clients do. The tag `name` is the route: SKUs must not become series of their own.

import http from "k6/http";
import { check } from "k6";
import { Rate } from "k6/metrics";
import { TARGETS } from "./config.js";

/** Reads that were answered without a load of their own. */
const cacheHits = new Rate("cache_hits");

http.setResponseCallback(http.expectedStatuses({ min: 200, max: 299 }, 304, 404, 409));

/** ETags seen by this client. */
const etags = new Map();

let turn = 0;

function target() {
  turn += 1;
  return TARGETS[(__VU + turn) % TARGETS.length];
}

/**
 * A cached read, conditional once the client has an ETag.
 * @param {string} sku
 */
export function browse(sku) {
  /** @type {Record<string, string>} */
  const headers = etags.has(sku) ? { "If-None-Match": etags.get(sku) } : {};
  const answer = http.get(`${target()}/stock/${encodeURIComponent(sku)}`, {
    headers,
    tags: { name: "GET /stock/{sku}" },
  });
  check(answer, {
    "a read is answered": (r) => [200, 304, 404].includes(r.status),
    "a read says where it came from": (r) => /^stockade; (hit|fwd=)/.test(r.headers["Cache-Status"] || ""),
    "stock is never negative": (r) => r.status !== 200 || Number(r.json("quantity")) >= 0,
  });
  cacheHits.add(/^stockade; hit/.test(answer.headers["Cache-Status"] || ""));
  if (answer.headers.Etag) {
    etags.set(sku, answer.headers.Etag);
  }
}

export function list() {
  const answer = http.get(`${target()}/stock?limit=50`, { tags: { name: "GET /stock" } });
  check(answer, { "a list is answered": (r) => r.status === 200 });
}

/** @param {string} sku */
export function movements(sku) {
  const answer = http.get(`${target()}/stock/${encodeURIComponent(sku)}/movements?limit=50`, {
    tags: { name: "GET /stock/{sku}/movements" },
  });
  check(answer, { "a ledger is answered": (r) => [200, 404].includes(r.status) });
}

/**
 * An adjustment under the lock.
 * @param {string} sku
 * @param {boolean} twice send it again with the same Idempotency-Key
 */
export function adjust(sku, twice) {
  const delta = Math.random() < 0.8 ? -1 : 4;
  const body = JSON.stringify({ delta, reference: "loadtest" });
  const key = `loadtest-${__VU}-${Date.now()}-${Math.random().toString(36).slice(2)}`;
  const send = () =>
    http.post(`${target()}/stock/${encodeURIComponent(sku)}/adjustments`, body, {
      headers: { "Content-Type": "application/json", "Idempotency-Key": key },
      tags: { name: "POST /stock/{sku}/adjustments" },
    });
  const first = send();
  check(first, {
    // 423 and 429 are refusals that promise that nothing was done; they count as failed requests.
    "an adjustment is answered": (r) => [200, 404, 409, 423, 429].includes(r.status),
    "a write has a fencing token": (r) => r.status !== 200 || Number(r.json("fencing_token")) > 0,
  });
  if (twice && first.status === 200) {
    const second = send();
    check(second, {
      "a repeated adjustment gives the first answer": (r) =>
        r.status === 200 && r.headers["Idempotent-Replayed"] === "true" && r.body === first.body,
    });
  }
}
