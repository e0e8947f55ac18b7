// The log of the locks: what this instance was granted, handed and lost, and what administrators took.

import { element, say } from "./dom.js";
import { count, seconds } from "./format.js";

const EACH_MS = 2000;
const SHOWN = 300;

export class Events {
  #admin;
  #access;
  #parts;
  #isOpen = false;
  #timer = null;
  #newest = 0;

  /** `parts`: the elements of the log, by name. */
  constructor(parts, admin, access) {
    [this.#parts, this.#admin, this.#access] = [parts, admin, access];
    admin.watch(() => this.#ask());
    parts.search.addEventListener("input", () => this.#filter());
    document.addEventListener("visibilitychange", () => this.#ask());
  }

  /** Asks for news every two seconds while the tab is open. */
  open(isOpen) {
    this.#isOpen = isOpen;
    this.#ask();
  }

  async #ask() {
    clearTimeout(this.#timer);
    if (!this.#admin.hasToken) {
      this.#parts.rows.replaceChildren();
      this.#newest = 0;
    }
    if (!this.#admin.hasToken || !this.#isOpen || document.hidden) return;
    // Scheduled before the answer: a newer call takes its place.
    const mine = (this.#timer = setTimeout(() => this.#ask(), EACH_MS));
    try {
      let log = await this.#admin.ask("GET", `/admin/locks/events?after=${this.#newest}`);
      if (mine !== this.#timer) return;
      if (log.newest < this.#newest) {
        // The instance was started again, and counts from 1.
        [this.#newest, log] = [0, await this.#admin.ask("GET", "/admin/locks/events?after=0")];
      }
      this.#show(log);
    } catch (error) {
      this.#access.refused(error);
    }
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
