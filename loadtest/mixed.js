// The SKUs of the real orders in data/, and ids that don't exist. Sets the stock of these SKUs: not for a service whose
// stock matters.

import { SharedArray } from "k6/data";
import { SKUS } from "./lib/config.js";
import { compare } from "./lib/ledger.js";
import { ANSWERS, LEDGER, TIMES, reads, writes } from "./lib/options.js";
import { pick, take } from "./lib/skus.js";
import { browse } from "./lib/stock.js";
import { adjust } from "./lib/updates.js";

const ordered = new SharedArray("ordered", () => {
  const lines = open("../data/online-retail.csv").trim().split("\n").slice(1);
  // InvoiceNo,StockCode,…: neither of the two is ever quoted.
  return [...new Set(lines.map((line) => line.split(",")[1]))].slice(0, SKUS);
});

/** @type {import("k6/options").Options} */
export const options = {
  ...TIMES,
  scenarios: { browse: reads("browsing"), adjust: writes("adjusting") },
  thresholds: { ...ANSWERS, ...LEDGER },
};

export const setup = () => take([...ordered]);

/** @param {import("./lib/skus.js").Opening} data */
export function browsing({ run, skus }) {
  if (Math.random() < 0.2) {
    browse(`${run}-absent-${Math.floor(Math.random() * 1000)}`, false);
  } else {
    browse(pick(skus));
  }
}

/** @param {import("./lib/skus.js").Opening} data */
export const adjusting = ({ run, skus }) => adjust(run, pick(skus), Math.random() < 0.8 ? -1 : 4);

export const teardown = compare;
