// What readers do. The tag `name` is the route: SKUs must not become series of their own.

import http from "k6/http";
import { check } from "k6";
import { Rate } from "k6/metrics";
import { target } from "./target.js";

/** Reads that were answered without a load of their own. */
const cacheHits = new Rate("cache_hits");

http.setResponseCallback(http.expectedStatuses({ min: 200, max: 299 }, 304, 404, 409));

/** ETags seen by this client. */
const etags = new Map();

/**
 * A cached read, conditional once the client has an ETag.
 * @param {string} sku
 * @param {boolean} [exists]
 */
export function browse(sku, exists = true) {
  /** @type {Record<string, string>} */
  const headers = etags.has(sku) ? { "If-None-Match": etags.get(sku) } : {};
  const answer = http.get(`${target()}/stock/${encodeURIComponent(sku)}`, {
    headers,
    tags: { name: "GET /stock/{sku}" },
  });
  check(answer, {
    "a read is answered": (r) => (exists ? [200, 304] : [404]).includes(r.status),
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
  check(answer, { "a ledger is answered": (r) => r.status === 200 });
}
