// The tab of the attack lab: one card for each attack.

import { Refused } from "./admin.js";
import { AttackCard } from "./attack.js";
import { element, say } from "./dom.js";
import { Poll } from "./poll.js";

/** What the tab says without a token. */
export const WHY =
  "Attacks run on this instance, so they need the admin token (ADMIN_TOKEN). They use a table, keys and connections " +
  "of their own: the stock of the service is not touched.";

const RUNNING_MS = 400;
const IDLE_MS = 3000;

export class Attacks extends Poll {
  #admin;
  #access;
  #parts;
  #cards = new Map();

  /** `parts`: the elements of the tab, by name. */
  constructor(parts, admin, access) {
    super(admin, access, IDLE_MS, (isOld) => this.#ask(isOld));
    [this.#parts, this.#admin, this.#access] = [parts, admin, access];
    parts.stop.addEventListener("click", () => this.#stop());
  }

  /** Often while an attack runs. */
  async #ask(isOld) {
    const { attacks, runs } = await this.#admin.ask("GET", "/admin/attacks");
    if (isOld()) return;
    this.#access.answered();
    return (await this.#show(attacks, runs)) ? RUNNING_MS : IDLE_MS;
  }

  /** Draws every attack and its last run; returns whether one is under way. */
  async #show(attacks, runs) {
    const running = runs.find((run) => run.state === "running");
    this.#parts.stop.disabled = !running;
    for (const attack of attacks) {
      if (!this.#cards.has(attack.name)) this.#add(attack);
      const card = this.#cards.get(attack.name);
      const run = runs.find((run) => run.attack === attack.name);
      card.allow(!running);
      if (run && !card.has(run)) card.draw(await this.#admin.ask("GET", `/admin/attacks/${attack.name}`));
    }
    return Boolean(running);
  }

  #add(attack) {
    const card = new AttackCard(attack, () => this.#start(attack.name));
    this.#cards.set(attack.name, card);
    this.#parts.list.append(element("li", {}, card.element));
  }

  async #stop() {
    try {
      await this.#admin.ask("DELETE", "/admin/attacks");
      say(this.#parts.result, "");
    } catch (error) {
      this.#access.refused(error, this.#parts.result);
    }
    this.now();
  }

  /** Returns what it was refused for, which its card says: the note of the tab may be out of sight. */
  async #start(name) {
    try {
      await this.#admin.ask("POST", `/admin/attacks/${name}`);
      say(this.#parts.result, "");
      return null;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return error.message;
    } finally {
      this.now();
    }
  }
}
