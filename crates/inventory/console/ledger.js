// The last movements of a SKU, as a table.

import { element, table } from "./dom.js";
import { count, moment, units } from "./format.js";

const COLUMNS = ["When", "Kind", "Change", "Left", "Reference", "Token"];

/** A heading, which takes the focus, and the table. */
export function ledger(sku, movements) {
  const title = element("h3", { tabindex: "-1", id: "stock-ledger-title" }, "Ledger of ");
  const which = `: the last ${count(movements.length)} movements, newest first`;
  title.append(element("span", { class: "name" }, sku), which);
  const rows = table({ "aria-labelledby": "stock-ledger-title" }, COLUMNS, movements.map(row));
  return [title, element("div", { class: "table ledger" }, rows)];
}

function row({ created_at: at, kind, delta, quantity, reference, fencing_token: token }) {
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, moment(at)),
    element("td", {}, kind),
    element("td", {}, `${delta > 0 ? "+" : ""}${count(delta)}`),
    element("td", {}, units(quantity)),
    element("td", { class: "name" }, reference ?? "none"),
    element("td", {}, token === null ? "no token" : `token ${token}`),
  );
}
