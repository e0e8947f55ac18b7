// The order lines in data/, one after another: each takes its quantity out of stock, a return gives it back. The SKUs
// are of the run alone, one for each SKU of the orders.

import { SharedArray } from "k6/data";
import exec from "k6/execution";
import { SKUS } from "./lib/config.js";
import { compare } from "./lib/ledger.js";
import { ANSWERS, LEDGER, TIMES, reads, writes } from "./lib/options.js";
import { create } from "./lib/skus.js";
import { browse } from "./lib/stock.js";
import { adjust } from "./lib/updates.js";

// InvoiceNo,StockCode,Description,Quantity,UnitPrice,CustomerID,Country: only the description may have commas.
/** @param {string} line */
const code = (line) => line.split(",")[1];
/** @param {string} line */
const quantity = (line) => Number(line.split(",").slice(-4)[0]);

/** Which SKU, by the order in which they first occur, and how many units. */
const lines = new SharedArray("lines", () => {
  const orders = open("../data/online-retail.csv").trim().split("\n").slice(1);
  const codes = [...new Set(orders.map(code))].slice(0, SKUS);
  const places = new Map(codes.map((it, place) => [it, place]));
  return orders
    .map((line) => ({ place: places.get(code(line)) ?? -1, delta: -quantity(line) }))
    .filter(({ place }) => place >= 0);
});

/** @type {import("k6/options").Options} */
export const options = {
  ...TIMES,
  scenarios: { browse: reads("browsing"), order: writes("ordering") },
  thresholds: { ...ANSWERS, ...LEDGER },
};

export const setup = () => create(SKUS);

/** The line of this iteration. They begin again when all are sent. */
const line = () => lines[exec.scenario.iterationInTest % lines.length];

/** @param {import("./lib/skus.js").Opening} data */
export const browsing = ({ skus }) => browse(skus[line().place]);

/** @param {import("./lib/skus.js").Opening} data */
export const ordering = ({ run, skus }) => adjust(run, skus[line().place], line().delta);

export const teardown = compare;
