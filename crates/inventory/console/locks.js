// The tab of locks: who holds, who waits, over the whole fleet.

import { confirmForce } from "./confirm.js";
import { element, say } from "./dom.js";
import { count, seconds, span } from "./format.js";
import { Poll } from "./poll.js";

const EACH_MS = 2000;
const MOST_LOOKED_UP = 20;
/** As many as a list of the instance names at most. */
const MOST_LISTED = 1000;

/** What the tab says without a token. */
export const WHY =
  "Who holds a lock, and force release, need the admin token (ADMIN_TOKEN). The token stays in the memory of this " +
  "page and is gone when the page is closed. Without it the overview shows how many are held and waited for.";

export class Locks extends Poll {
  #admin;
  #access;
  #parts;
  #rows = new Map();
  /** The resources of the locks that are being forced. */
  #forcing = new Set();

  /** `parts`: the elements of the tab, by name. */
  constructor(parts, admin, access) {
    super(admin, access, EACH_MS, (isOld) => this.#ask(isOld));
    [this.#parts, this.#admin, this.#access] = [parts, admin, access];
    admin.watch(() => this.#clear());
    parts.search.addEventListener("input", () => this.now());
  }

  #clear() {
    if (!this.#admin.hasToken) this.#draw([]);
  }

  async #ask(isOld) {
    const { items, locks } = await this.#admin.ask("GET", "/admin/locks");
    const shown = await this.#matching(items, locks);
    if (isOld()) return;
    this.#access.answered();
    const all = `${count(items.length)}${items.length < MOST_LISTED ? "" : " or more"}`;
    say(this.#parts.tally, `Locks held or waited for: ${all}. Shown: ${count(shown.length)}.`);
    this.#draw(shown);
  }

  /**
   * The locks that the search names. The list has details of the first hundred; some others are looked up, and a
   * whole name even where the list, which has an end, does not have it.
   */
  async #matching(items, locks) {
    const text = this.#parts.search.value.trim();
    const wanted = text.toLowerCase();
    const isWanted = (resource) => resource.toLowerCase().includes(wanted);
    const found = locks.filter((lock) => isWanted(lock.resource));
    if (!wanted) return found;
    const known = new Set(locks.map((lock) => lock.resource));
    const whole = text.includes(":") ? [text] : [];
    const others = [...new Set([...whole, ...items])].filter((name) => isWanted(name) && !known.has(name));
    const looked = others.slice(0, MOST_LOOKED_UP).map((resource) => this.#admin.ask("GET", path(resource)));
    const isThere = (lock) => lock.foreign || lock.holders.length || lock.waiting;
    return [...found, ...(await Promise.all(looked)).filter(isThere)];
  }

  #draw(locks) {
    const names = new Set(locks.map((lock) => lock.resource));
    for (const [resource, row] of this.#rows) {
      if (names.has(resource)) continue;
      row.element.remove();
      this.#rows.delete(resource);
    }
    for (const lock of locks) {
      if (!this.#rows.has(lock.resource)) this.#rows.set(lock.resource, this.#row(lock));
      const row = this.#rows.get(lock.resource);
      row.lock = lock;
      draw(row.holders, lock.foreign ? [[FOREIGN, ""]] : lock.holders.map((one) => [holder(one), lease(one)]));
      draw(row.queue, lock.waiters.map((one) => [party(one), age(one)]));
      const more = lock.waiting - lock.waiters.length;
      const waiting = lock.waiting
        ? `waiting: ${count(lock.waiting)}${more > 0 ? `, of whom ${count(more)} are not listed` : ""}`
        : "nobody waits";
      say(row.waiting, lock.foreign ? "" : waiting);
    }
  }

  /** A row stays while its lock is there, so that its button keeps the focus. */
  #row(lock) {
    const [holders, queue, waiting] = [element("ul"), element("ol"), element("span", { class: "soft" })];
    const force = element(
      "button",
      { type: "button", "aria-label": `Force release of ${lock.resource}` },
      "Force release…",
    );
    const row = { lock, holders, queue, waiting };
    row.element = element(
      "tr",
      {},
      element("th", { scope: "row", class: "name" }, lock.resource),
      element("td", { "data-head": "held by" }, holders),
      element("td", { "data-head": "queue" }, waiting, queue),
      element("td", {}, force),
    );
    force.addEventListener("click", () => this.#force(row.lock));
    this.#parts.rows.append(row.element);
    return row;
  }

  /** Until the answer another press does nothing: it would take the lock from the next holder. */
  async #force(lock) {
    const { resource } = lock;
    if (this.#forcing.has(resource)) return;
    const now = await confirmForce(lock, lock.holders.map(holder));
    if (now === null) return;
    this.#forcing.add(resource);
    say(this.#parts.result, `Forcing ${resource} …`);
    try {
      say(this.#parts.result, await this.#forced(lock, now));
    } catch (error) {
      this.#access.refused(error, this.#parts.result);
    } finally {
      this.#forcing.delete(resource);
    }
    this.now();
  }

  /** Forces the lock if its holders are those that the question named; returns what came of it. */
  async #forced(lock, now) {
    const { resource } = lock;
    const there = await this.#admin.ask("GET", path(resource));
    if (held(there) !== held(lock)) return `The holders of ${resource} changed, so nothing was done: look again.`;
    const { holders, token } = await this.#admin.ask("DELETE", `${path(resource)}?now=${now}`);
    return `${resource} was forced. Holders that lost it: ${count(holders)}. Its fence is at token ${token}.`;
  }
}

/** Lines of two parts. What stays the same is not drawn anew, so that a selection in it is kept. */
function draw(list, lines) {
  while (list.children.length > lines.length) list.lastChild.remove();
  lines.forEach((parts, place) => {
    const line = list.children[place] ?? list.appendChild(element("li", {}, element("span"), element("span")));
    parts.forEach((text, part) => say(line.children[part], text));
  });
}

/** What stands in place of holders when another program put a value under a key of the lock. */
const FOREIGN = "A value of another program stands in place of the lock. Force release overwrites it.";

const path = (resource) => `/admin/locks/${encodeURIComponent(resource)}`;

const time = (ms) => (ms < 60_000 ? seconds(ms / 1000) : span(ms / 1000));

/** Who holds a lock, whatever the order. */
const held = ({ foreign = false, holders }) => JSON.stringify([foreign, ...holders.map(holder).sort()]);

const party = ({ tag, mode }) => `${tag || "no name given"} · ${mode}`;

const holder = (one) => `${party(one)} · token ${one.token ?? "none"}`;

const age = ({ age_ms: ms }) => (ms === undefined ? "" : ` · for ${time(ms)}`);

const lease = (one) => `${age(one)} · lease left ${time(one.remaining_ms)}`;
