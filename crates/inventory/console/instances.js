// The table of the instances: how each of them is.

import { element, look, say } from "./dom.js";
import { bytes, perSecond, span } from "./format.js";
import { name } from "./fleet.js";

const NEW_MS = 4000;

const STATES = {
  live: () => ["live", "good"],
  silent: (ms) => [`no answer for ${span(ms / 1000)}`, "bad"],
  refused: () => ["takes no more listeners", "warn"],
  stranger: () => ["something else answers there", "warn"],
  no_address: () => ["tells no address: set OPS_ADVERTISE", "warn"],
  gone: (ms) => [`gone ${span(ms / 1000)} ago`, "bad"],
};

export class Instances {
  #rows;
  #known = new Map();

  constructor(rows) {
    this.#rows = rows;
  }

  show(instances) {
    for (const [id, row] of this.#known) {
      if (instances.some((one) => one.id === id)) continue;
      row.element.remove();
      this.#known.delete(id);
    }
    instances.forEach((one, place) => {
      if (!this.#known.has(one.id)) this.#known.set(one.id, this.#row(one));
      const row = this.#known.get(one.id);
      row.wasHeard ||= one.state === "live";
      // In its first seconds it was not asked yet.
      const isNew = one.state === "silent" && !row.wasHeard && one.silent_ms < NEW_MS;
      const [word, level] = isNew ? ["connecting", "warn"] : (STATES[one.state] ?? STATES.silent)(one.silent_ms);
      look(row.state, `word ${level}`);
      say(row.state, place === 0 ? `${word}, this page comes from it` : word);
      row.element.dataset.state = one.state;
      say(row.figures, one.snapshot ? row.figure(one.snapshot) : "–");
    });
  }

  #row(one) {
    const [state, figures] = [element("td", { class: "word" }), element("td")];
    const made = element("tr", { "data-instance": one.id }, element("th", { scope: "row" }, name(one)), state, figures);
    this.#rows.append(made);
    let last = null;
    // A rate needs two snapshots.
    const figure = (snapshot) => {
      const all = Object.values(snapshot.metrics.http_requests_total ?? {}).reduce((sum, value) => sum + value, 0);
      const seconds = last ? (snapshot.at_ms - last.at) / 1000 : 0;
      const rate = seconds > 0 ? Math.max(0, all - last.all) / seconds : (last?.rate ?? null);
      last = { at: snapshot.at_ms, all, rate };
      const memory = snapshot.metrics.process_resident_memory_bytes?.[""];
      const since = snapshot.at_ms / 1000 - snapshot.metrics.process_start_time_seconds?.[""];
      return `${perSecond(rate)} · version ${snapshot.version} · up ${span(since)} · ${bytes(memory)} of memory`;
    };
    return { element: made, state, figures, figure, wasHeard: false };
  }
}
