// The row of sentences on top: what is wrong now, and what to do.

import { element, say } from "./dom.js";
import { name } from "./fleet.js";
import { span } from "./format.js";
import { broken } from "./rules.js";

const AWAY_MS = 4000;
const REPLACED_MS = 120_000;
const SILENT = [{ level: "warn", text: "The chosen instance sends no figures. Any that are below are from before." }];
const FINE = [{ level: "good", text: "Nothing is wrong that this instance can see." }];

export class Advice {
  #list;
  #news;
  #shown = null;
  #link = [];
  #away = [];
  #rules = [{ level: "good", text: "Waiting for the first figures." }];

  /** In `list`; `news` is what a screen reader hears. */
  constructor(list, news) {
    [this.#list, this.#news] = [list, news];
    this.#draw();
  }

  /** Looks at the newest snapshots. */
  judge(history) {
    const found = broken(history).map(({ rule, value }) => ({
      // What a figure in the sentence does not change.
      key: rule.todo + (rule.key?.(value, history) ?? ""),
      level: rule.level,
      text: rule.says(value, history),
      todo: rule.todo,
      more: rule.alert && `docs/runbook.md, ${rule.alert}`,
    }));
    this.#rules = found.length ? found : FINE;
    this.#draw();
  }

  /** No snapshot says how the instance is that was chosen. */
  silent() {
    this.#rules = SILENT;
    this.#draw();
  }

  /** The instance itself may be gone, which no snapshot can say: the alert TargetDown. */
  link({ state, seconds }) {
    const told = {
      gone: {
        level: "bad",
        text: `This instance does not answer. The figures below are from before.`,
        todo: "The page asks again by itself. The other instances go on; locks of a dead one end with their lease.",
        more: "docs/runbook.md, TargetDown",
      },
      late: {
        level: "warn",
        text: "Figures come late: this instance is stopped or starved, or the network is slow.",
        todo: "Look at its processor and at the machine between.",
      },
      refused: {
        level: "bad",
        text: "The instance sends no figures to this page: 32 pages listen already, or it is another service.",
        todo: "Close a console somewhere else. The page asks again every five seconds.",
      },
    }[state];
    // In the first moment nobody has answered yet.
    this.#link = told && seconds > 1 ? [told] : [];
    this.#draw();
  }

  /** Other instances may be away. One that went a while ago is in the table only: it may have been replaced. */
  fleet(instances) {
    const away = instances.filter(({ state, silent_ms: ms }) => {
      return (state === "silent" && ms > AWAY_MS) || (state === "gone" && ms < REPLACED_MS);
    });
    this.#away = away.map((one) => ({
      level: "warn",
      text: `The instance ${name(one)} ${one.state === "gone" ? "is gone" : "does not answer"}.`,
      todo: "If nobody stopped it, look at its machine. Locks of a dead instance end with their lease.",
      more: "docs/runbook.md, TargetDown",
    }));
    this.#draw();
  }

  #draw() {
    const above = [...this.#link, ...this.#away];
    const items = [...above, ...(this.#rules === FINE && above.length ? [] : this.#rules)];
    const keys = JSON.stringify(items.map(({ key, text }) => key ?? text));
    if (keys !== this.#shown) {
      this.#shown = keys;
      this.#list.replaceChildren(...items.map(item));
      // Not the list itself: its figures change with each snapshot.
      say(this.#news, items.map(({ text }) => text).join(" "));
    }
    items.forEach(({ text }, place) => say(this.#list.children[place].firstChild, text));
  }
}

function item({ level, text, todo, more }) {
  const made = element("li", { class: `advice ${level}` }, element("strong", {}, text));
  if (todo) made.append(todo);
  if (more) made.append(" ", element("small", {}, `(${more})`));
  return made;
}

/** The words of the pill in the head. */
export function linkWords({ state, seconds }) {
  if (state === "live") return ["live", "pill good"];
  if (state === "refused") return ["no figures", "pill bad"];
  return state === "late" ? [`late by ${span(seconds)}`, "pill warn"] : [`no answer for ${span(seconds)}`, "pill bad"];
}
