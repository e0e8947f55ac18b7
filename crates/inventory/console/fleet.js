// Which instances the page shows: all of them, added, or one.

import { combine } from "./combine.js";
import { element, say } from "./dom.js";

const ALL = "all";

export class Fleet {
  #parts;
  #chosen = ALL;
  #options = new Map();

  /** `parts`: the elements of the chooser, by name. `changed` is called when another choice is made. */
  constructor(parts, changed) {
    this.#parts = parts;
    this.#option(ALL, "");
    parts.chooser.addEventListener("change", () => {
      this.#chosen = parts.chooser.value;
      changed();
    });
  }

  /**
   * Takes what the instances say now. Returns { snapshot, live }: what the page shows, `null` while the chosen instance
   * is away, and the instances in it.
   */
  take(instances) {
    const live = instances.filter(({ state }) => state === "live");
    const ids = new Set([ALL, ...instances.map(({ id }) => id)]);
    for (const [id, option] of this.#options) {
      // What is chosen stays, so that the page does not turn to something else by itself.
      if (ids.has(id) || id === this.#chosen) continue;
      option.remove();
      this.#options.delete(id);
    }
    instances.forEach((one) => this.#option(one.id, words(one)));
    this.#option(ALL, `all instances that answer (${live.length})`);
    this.#parts.choice.hidden = instances.length === 1 && this.#chosen === ALL;
    const shown = this.#chosen === ALL ? live : live.filter(({ id }) => id === this.#chosen);
    return { live: shown, snapshot: shown.length ? combine(shown.map((one) => [name(one), one.snapshot])) : null };
  }

  #option(id, text) {
    if (!this.#options.has(id)) {
      const made = element("option", { value: id });
      this.#options.set(id, made);
      this.#parts.chooser.append(made);
    }
    say(this.#options.get(id), text);
  }
}

/** What people call an instance. */
export const name = ({ address, id }) => address ?? `instance ${id.slice(0, 6)}`;

const words = (one) => (one.state === "live" ? name(one) : `${name(one)} (${one.state === "gone" ? "gone" : "away"})`);
