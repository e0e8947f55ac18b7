// The log of the locks: what this instance was granted, handed and lost, and what administrators took.

import { element, say } from "./dom.js";
import { count, seconds } from "./format.js";
import { Poll } from "./poll.js";

const EACH_MS = 2000;
const SHOWN = 300;

export class Events {
  #admin;
  #parts;
  #newest = 0;
  #poll;

  /** `parts`: the elements of the log, by name. */
  constructor(parts, admin, access) {
    [this.#parts, this.#admin] = [parts, admin];
    this.#poll = new Poll(admin, access, EACH_MS, (isOld) => this.#ask(isOld));
    admin.watch(() => this.#clear());
    parts.search.addEventListener("input", () => this.#filter());
  }

  open(isOpen) {
    this.#poll.open(isOpen);
  }

  #clear() {
    if (this.#admin.hasToken) return;
    this.#parts.rows.replaceChildren();
    this.#newest = 0;
  }

  async #ask(isOld) {
    let log = await this.#admin.ask("GET", `/admin/locks/events?after=${this.#newest}`);
    if (isOld()) return;
    if (log.newest < this.#newest) {
      // The instance was started again, and counts from 1.
      [this.#newest, log] = [0, await this.#admin.ask("GET", "/admin/locks/events?after=0")];
    }
    this.#show(log);
  }

  #show({ events, newest, since_ms: since, left_out: leftOut }) {
    this.#newest = newest;
    const { rows, note } = this.#parts;
    const some = leftOut ? ` Left out, since there were more than 50 a second: ${count(leftOut)}.` : "";
    say(note, `Grants since ${clock(since)}; losses and forced releases since the start.${some}`);
    rows.prepend(...events.reverse().slice(0, SHOWN).map(row));
    while (rows.children.length > SHOWN) rows.lastElementChild.remove();
    this.#filter();
  }

  #filter() {
    const wanted = this.#parts.search.value.trim().toLowerCase();
    for (const row of this.#parts.rows.children) {
      row.hidden = !row.cells[2].textContent.toLowerCase().includes(wanted);
    }
  }
}

const WORDS = { granted: "granted", handed_over: "handed over", lost: "LOST", forced: "FORCED" };

function row(event) {
  const bad = event.what === "lost" || event.what === "forced";
  return element(
    "tr",
    { "data-what": event.what },
    element("th", { scope: "row" }, clock(event.at_ms)),
    element("td", { class: bad ? "word bad" : "" }, WORDS[event.what] ?? event.what),
    element("td", { class: "name" }, event.resource),
    element("td", {}, detail(event)),
  );
}

function detail({ what, mode, token, waited_ms: waited, reason, holders }) {
  if (what === "forced") return `by an administrator, from ${count(holders)} holders · fence at token ${token}`;
  const how = what === "lost" ? reason.replaceAll("_", " ") : `after ${seconds(waited / 1000)}`;
  return `${mode} · ${how} · token ${token}`;
}

const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
