// The log of the locks: what each instance was granted, handed and lost, and what administrators took.

import { element, say } from "./dom.js";
import { name } from "./fleet.js";
import { count, moment, seconds } from "./format.js";
import { Poll } from "./poll.js";

const EACH_MS = 2000;
/** How many of a kind are shown. Each of 64 instances keeps 100 losses. */
const SHOWN = { grant: 300, loss: 6400 };

export class Events extends Poll {
  #admin;
  #parts;
  /** The number of the newest event of each instance. */
  #newest = new Map();

  /** `parts`: the elements of the log, by name. */
  constructor(parts, admin, access) {
    super(admin, access, EACH_MS, (isOld) => this.#ask(isOld));
    [this.#parts, this.#admin] = [parts, admin];
    admin.watch(() => this.#clear());
    parts.search.addEventListener("input", () => this.#filter());
  }

  #clear() {
    if (this.#admin.hasToken) return;
    this.#parts.rows.replaceChildren();
    this.#newest.clear();
  }

  async #ask(isOld) {
    const after = [...this.#newest].map((pair) => pair.join(":")).join(",");
    const { instances } = await this.#admin.ask("GET", `/admin/locks/events?after=${after}`);
    if (!isOld()) this.#show(instances);
  }

  #show(instances) {
    const logs = instances.filter((one) => one.log);
    say(this.#parts.note, note(logs, instances.length));
    // Each kind for itself: grants, of which there are many, push no loss out.
    for (const [wanted, most] of Object.entries(SHOWN)) {
      for (const one of logs) {
        // Older ones would only be taken away again.
        const events = one.log.events.filter((event) => kind(event) === wanted).slice(-most);
        events.forEach((event) => this.#insert(row(event, one)));
      }
      const rows = this.#parts.rows.getElementsByClassName(wanted);
      while (rows.length > most) rows[most].remove();
    }
    this.#newest = new Map(logs.map((one) => [one.id, one.log.newest]));
    this.#filter();
  }

  /** Among the others by its time, the latest first. Each is there once. */
  #insert(row) {
    if (document.getElementById(row.id)) return;
    const { rows } = this.#parts;
    const before = [...rows.children].find((other) => Number(other.dataset.at) <= Number(row.dataset.at));
    rows.insertBefore(row, before ?? null);
  }

  #filter() {
    const wanted = this.#parts.search.value.trim().toLowerCase();
    for (const row of this.#parts.rows.children) {
      row.hidden = !row.cells[2].textContent.toLowerCase().includes(wanted);
    }
  }
}

function note(logs, all) {
  const since = Math.max(...logs.map((one) => one.log.since_ms));
  const leftOut = logs.reduce((sum, one) => sum + one.log.left_out, 0);
  return [
    `Grants since ${moment(since)}; losses and forced releases since each instance started.`,
    ...(logs.length < all ? [`Not heard from yet: ${count(all - logs.length)} of ${count(all)} instances.`] : []),
    ...(leftOut ? [`Left out, since there were more than 50 a second: ${count(leftOut)}.`] : []),
  ].join(" ");
}

const WORDS = { granted: "granted", handed_over: "handed over", lost: "LOST", forced: "FORCED" };

const kind = ({ what }) => (what === "lost" || what === "forced" ? "loss" : "grant");

function row(event, instance) {
  const bad = kind(event) === "loss";
  return element(
    "tr",
    { id: `event-${instance.id}-${event.id}`, class: kind(event), "data-what": event.what, "data-at": event.at_ms },
    element("th", { scope: "row" }, moment(event.at_ms)),
    element("td", { class: bad ? "word bad" : "" }, WORDS[event.what] ?? event.what),
    element("td", { class: "name" }, event.resource),
    element("td", {}, detail(event)),
    element("td", {}, name(instance)),
  );
}

function detail({ what, mode, token, waited_ms: waited, reason, holders }) {
  if (what === "forced") return `by an administrator, from ${count(holders)} holders · fence at token ${token}`;
  const how = what === "lost" ? words(reason) : `after ${seconds(waited / 1000)}`;
  return `${mode} · ${how} · token ${token}`;
}

/** The log of another instance comes by Redis, and may lack what one of this version has. */
const words = (reason) => (reason ?? "no reason given").replaceAll("_", " ");
