// The tab of stock: what is on hand by SKU, what the ledger says, and whether the two agree.

import { element, say } from "./dom.js";
import { count, moment, seconds, units } from "./format.js";
import { ledger } from "./ledger.js";
import { sparkline } from "./sparkline.js";

/** What the tab says without a token. */
export const WHY =
  "SKUs, their ledger and the check need the admin token (ADMIN_TOKEN): without it this port names no SKU. Nothing " +
  "on this tab changes stock.";

const TYPING_MS = 250;
const CHECK_MS = 65_000;
const CONSERVED = "Stock is conserved: the ledger explains every quantity.";

export class Stock {
  #admin;
  #access;
  #parts;
  #isOpen = false;
  #typing = null;
  #asked = 0;
  #next = null;

  /** `parts`: the elements of the tab, by name. */
  constructor(parts, admin, access) {
    [this.#parts, this.#admin, this.#access] = [parts, admin, access];
    admin.watch(() => this.#search(null));
    parts.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#search(null);
    });
    parts.search.addEventListener("input", () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#search(null), TYPING_MS);
    });
    parts.next.addEventListener("click", () => this.#search(this.#next));
    parts.check.addEventListener("click", () => this.#check());
  }

  /** Searches when the tab is opened. */
  open(isOpen) {
    const opens = isOpen && !this.#isOpen;
    this.#isOpen = isOpen;
    if (opens) this.#search(null);
  }

  async #search(after) {
    clearTimeout(this.#typing);
    const { rows, ledger, search, tally, next, conservation } = this.#parts;
    if (!this.#admin.hasToken) {
      rows.replaceChildren();
      ledger.replaceChildren();
      say(conservation, "");
    }
    if (!this.#isOpen || !this.#admin.hasToken) return;
    // The answer to an older question is dropped.
    const mine = ++this.#asked;
    const query = new URLSearchParams({ prefix: search.value, ...(after === null ? {} : { after }) });
    try {
      const page = await this.#admin.ask("GET", `/admin/stock?${query}`);
      if (mine !== this.#asked) return;
      this.#access.answered();
      this.#next = page.next;
      next.hidden = page.next === null;
      const more = page.next === null ? "" : " There are more.";
      say(tally, `SKUs shown: ${count(page.items.length)}.${more} Upper and lower case differ.`);
      rows.replaceChildren(...page.items.map((item) => this.#row(item)));
    } catch (error) {
      if (mine === this.#asked) this.#access.refused(error);
    }
  }

  #row({ sku, quantity, updated_at: changed, ledger }) {
    const open = element("button", { type: "button", class: "name", "data-sku": sku }, sku);
    open.setAttribute("aria-label", `Ledger of ${sku}`);
    open.addEventListener("click", () => this.#show(sku));
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, open),
      element("td", {}, units(quantity)),
      element("td", {}, sparkline(ledger)),
      element("td", {}, moment(changed)),
    );
  }

  async #show(sku) {
    try {
      const path = `/admin/stock/${encodeURIComponent(sku)}/movements?limit=50`;
      const { items } = await this.#admin.ask("GET", path);
      this.#access.answered();
      this.#parts.ledger.replaceChildren(...ledger(sku, items));
      this.#parts.ledger.querySelector("h3").focus();
    } catch (error) {
      this.#access.refused(error);
    }
  }

  async #check() {
    const { check, conservation } = this.#parts;
    check.disabled = true;
    say(conservation, "Reading stock and ledger to their end …");
    const begun = performance.now();
    try {
      const checked = await this.#admin.ask("GET", "/admin/conservation", CHECK_MS);
      this.#access.answered();
      const took = seconds((performance.now() - begun) / 1000);
      const found = `SKUs: ${count(checked.skus)}, movements: ${count(checked.movements)}`;
      const read = `${found}, read in ${took}, until ${moment(this.#admin.now)}.`;
      say(conservation, checked.holds ? `${CONSERVED} ${read}` : `${wrong(checked)} ${read}`);
      conservation.className = checked.holds ? "good" : "bad";
    } catch (error) {
      say(conservation, "Not checked.");
      conservation.className = "";
      this.#access.refused(error);
    }
    check.disabled = false;
  }
}

function wrong({ violations }) {
  const broken = violations.map(({ rule, count: many, examples }) => {
    return `${rule}, ${count(many)} times: ${examples.join("; ")}`;
  });
  return `Stock is NOT conserved. ${broken.join(". ")}.`;
}
