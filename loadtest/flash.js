// A flash sale: everybody wants one unit of a SKU, until nothing is left.

import { FLASH, TIMES, writes } from "./lib/options.js";
import { closeSale, openSale } from "./lib/flash.js";
import { reserve } from "./lib/reservations.js";

/** @type {import("k6/options").Options} */
export const options = {
  ...TIMES,
  scenarios: { reserve: writes("reserving") },
  thresholds: { ...FLASH, "http_req_duration{name:POST /flash/{sku}/reservations}": ["p(99)<1000"] },
};

export const setup = openSale;

/** @param {import("./lib/flash.js").Opened} sale */
export const reserving = ({ run, sku }) => reserve(run, sku);

export const teardown = closeSale;
