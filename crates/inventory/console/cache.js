// The tab of the cache: its state on this instance, and what is cached of one SKU.

import { cached } from "./cached.js";
import { confirm } from "./confirm.js";
import { element, say } from "./dom.js";
import { bytes, count, percent } from "./format.js";
import { Poll } from "./poll.js";

/** What the tab says without a token. */
export const WHY =
  "The state of the cache, looking a SKU up and invalidating it need the admin token (ADMIN_TOKEN). The table above " +
  "needs none.";

const EACH_MS = 2000;

/** Each fact: its name; of the answer of /admin/cache, its words. */
const FACTS = [
  ["Loads that found a row", (is) => count(is.loads_ok)],
  ["Loads that found none", (is) => count(is.loads_absent)],
  ["Loads that failed", (is) => `${count(is.loads_error)}, and ${count(is.loads_timeout)} took too long`],
  ["Loads under way", (is) => count(is.loads_in_flight)],
  ["Loaded, not stored", (is) => `${count(is.fill_rejected)} values: a write came in between`],
  ["In memory", (is) => `${count(is.local_entries)} values, ${bytes(is.local_weight)}`],
  ["Redis", (is) => (is.degraded ? "away" : is.vouched_for ? "up, believed" : "up, not believed yet")],
  ["Filter of SKUs", (is) => filter(is.filter)],
  ["Warm-up", ({ warm_up: warm }) => `${warm.state.replace("_", " ")}, ${count(warm.keys)} keys`],
];

function filter(state) {
  if (state === null) return "off";
  const fill = `${count(state.keys)} keys, ${percent(state.keys / state.expected)} of what it is made for`;
  return state.ready ? fill : `not ready: every SKU is looked up. ${fill}`;
}

export class Cache extends Poll {
  #admin;
  #access;
  #parts;
  #facts;

  /** `parts`: the elements of the tab, by name. */
  constructor(parts, admin, access) {
    super(admin, access, EACH_MS, (isOld) => this.#ask(isOld));
    [this.#parts, this.#admin, this.#access] = [parts, admin, access];
    this.#facts = FACTS.map(([name]) => {
      const value = element("dd", {}, "–");
      parts.facts.append(element("div", {}, element("dt", {}, name), value));
      return value;
    });
    admin.watch(() => this.#clear());
    parts["form-key"].addEventListener("submit", (event) => {
      event.preventDefault();
      say(parts.result, "");
      if (parts.key.value) this.#look(parts.key.value, parts.result);
    });
  }

  #clear() {
    if (this.#admin.hasToken) return;
    this.#parts.found.replaceChildren();
    say(this.#parts.result, "");
  }

  async #ask(isOld) {
    const state = await this.#admin.ask("GET", "/admin/cache");
    if (isOld()) return;
    this.#access.answered();
    FACTS.forEach(([, words], place) => say(this.#facts[place], words(state)));
  }

  /** A refusal stays at `place` until the next try; without one it is the tab's. */
  async #look(sku, place) {
    try {
      const found = await this.#admin.ask("GET", path(sku));
      const invalidate = element("button", { type: "button", id: "cache-invalidate" }, "Invalidate…");
      invalidate.addEventListener("click", () => this.#invalidate(sku));
      this.#parts.found.replaceChildren(...cached(found, this.#admin.now), element("p", {}, invalidate));
      this.#parts.found.querySelector("h3").focus();
    } catch (error) {
      this.#access.refused(error, place);
    }
  }

  async #invalidate(sku) {
    if (!(await confirm({ ...QUESTION, name: sku }))) return;
    try {
      await this.#admin.ask("DELETE", path(sku));
      say(this.#parts.result, `${sku} was invalidated in Redis and in every instance. The next read loads it.`);
      await this.#look(sku);
    } catch (error) {
      this.#access.refused(error, this.#parts.result);
    }
  }
}

const path = (sku) => `/admin/cache/${encodeURIComponent(sku)}`;

const QUESTION = {
  title: "Invalidate what is cached of this SKU?",
  text: "Its value or absence is dropped in Redis and in every instance, with every load under way. Nothing is lost.",
  action: "Invalidate",
};
