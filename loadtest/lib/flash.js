// The beginning and the end of a flash sale.

import http from "k6/http";
import { sleep } from "k6";
import { FLASH_UNITS, PER_CUSTOMER, TARGETS } from "./config.js";
import { unsettled } from "./journal.js";
import { agree, disagree, read } from "./ledger.js";
import { create } from "./skus.js";

const DAY = 24 * 60 * 60 * 1000;

/** How often the sale is asked to close: reservations may still have to be stored. */
const TRIES = 60;

/** @typedef {{ run: string, sku: string, opening: number }} Opened */

/**
 * A sale of a SKU of this run alone.
 * @returns {Opened}
 */
export function openSale() {
  const { run, skus, opening } = create(1);
  const ends = new Date(Date.now() + DAY).toISOString();
  const body = JSON.stringify({ quantity: FLASH_UNITS, per_customer: PER_CUSTOMER, ends_at: ends });
  const params = { headers: { "Content-Type": "application/json" }, tags: { name: "PUT /flash/{sku}" } };
  const [sku] = skus;
  const answer = http.put(`${TARGETS[0]}/flash/${encodeURIComponent(sku)}`, body, params);
  if (answer.status !== 201) {
    disagree(`can't open a sale of ${sku}: ${answer.status} ${answer.body}`);
  }
  return { run, sku, opening: opening[sku] };
}

/**
 * Closes the sale and compares: told = stored ≤ opened, opening - stored = quantity = sum of movements.
 * @param {Opened} sale
 */
export function closeSale({ run, sku, opening }) {
  const { opened, stored } = closed(sku);
  const { quantity, sum } = read(sku, run);
  // What clients were told is in the metric already.
  unsettled.add(-stored);
  if (stored > opened) {
    disagree(`${sku}: oversold: ${stored} units of ${opened} are stored`);
  }
  if (stored === 0) {
    disagree(`${sku}: nothing was sold: no reservation of this run is stored`);
  }
  if (opening - stored !== quantity || quantity !== sum) {
    disagree(`${sku}: opening ${opening} - stored ${stored}, quantity ${quantity}, sum of movements ${sum}`);
  }
  agree();
}

/**
 * @param {string} sku
 * @returns {{ opened: number, stored: number }}
 */
function closed(sku) {
  const params = { tags: { name: "DELETE /flash/{sku}" } };
  for (let tries = 0; tries < TRIES; tries += 1) {
    const answer = http.del(`${TARGETS[0]}/flash/${encodeURIComponent(sku)}`, null, params);
    if (answer.status === 200 && answer.json("state") === "closed") {
      return { opened: Number(answer.json("opened")), stored: Number(answer.json("stored")) };
    }
    sleep(1);
  }
  return disagree(`the sale of ${sku} is not closed after ${TRIES} tries`);
}
