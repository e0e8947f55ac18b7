// One attack: what it does, a button, both sides on one chart, the verdict and the numbers.

import { Chart } from "./chart.js";
import { element, look, say, table } from "./dom.js";
import { count, perSecond, seconds } from "./format.js";

const SIDES = [
  ["on", "With the defences"],
  ["off", "Without"],
];
/** What the chart of an attack shows, by its name. */
const DRAWN = {
  loads: { title: "Asked of Postgres", unit: "statements a second" },
  answered: { title: "Callers answered", unit: "answers a second" },
};
const chart = (drawn) => ({
  ...DRAWN[drawn],
  lines: SIDES.map(([, name]) => name),
  format: perSecond,
  length: 5,
  colours: [1, 4],
});

/** Each row of the table: its name, and the value of a side. */
const ROWS = [
  ["Callers answered", (side) => count(side.answered)],
  ["Got an error", (side) => count(side.failed)],
];
const STATEMENTS = [
  ["Statements", (side) => count(side.loads)],
  ["Most at once", (side) => count(side.most_loading)],
];
const STOCK = [
  ["Sold", (side) => count(side.stock?.sold)],
  ["More than there were", (side) => count(side.stock?.oversold)],
  ["Lost from the stock", (side) => count(side.stock?.lost)],
];
const TIMES = [
  ["Median", (side) => seconds(side.p50_ms / 1000)],
  ["99 %", (side) => seconds(side.p99_ms / 1000)],
  ["Slowest", (side) => seconds(side.slowest_ms / 1000)],
];

export class AttackCard {
  #button;
  #state = element("span", { class: "soft" });
  #verdict;
  #result = element("div", { class: "result" });
  #cells = [];
  #chart = null;
  #schemes = element("div");
  #drawn = null;
  #figure;
  #missing;
  #table;
  #waits = false;

  /** `start` begins it, and returns a sentence if it was refused. */
  constructor({ name, title, does, on, off, sells, loads, chart, missing }, start) {
    [this.#figure, this.#missing] = [chart, missing];
    this.#table = [...ROWS, ...(sells ? STOCK : []), ...(loads ? STATEMENTS : []), ...TIMES];
    this.#button = element("button", { type: "button", "data-attack": name }, `Run ${lower(title)}`);
    this.#button.addEventListener("click", async () => {
      if (this.#button.ariaDisabled === "true") return;
      this.#disable(true);
      say(this.#state, (await start()) ?? "");
    });
    this.#verdict = element("p", { class: "verdict", role: "status", "data-verdict": name });
    this.element = element(
      "article",
      { class: "attack", "aria-label": title, "data-result": name },
      element("h3", {}, title),
      element("p", {}, does),
      element(
        "dl",
        { class: "sides" },
        element("dt", {}, "With the defences"),
        element("dd", {}, on),
        element("dt", {}, "Without"),
        element("dd", {}, off),
      ),
      element("p", { class: "bar" }, this.#button, this.#state),
      this.#verdict,
      this.#result,
      this.#schemes,
    );
    if (missing) say(this.#state, `Not here: ${missing}`);
  }

  /** Whether it may be begun now. */
  allow(may) {
    // What was refused because of another attack may be tried again.
    if (may && this.#waits && !this.#missing) say(this.#state, "");
    this.#waits = !may;
    this.#disable(!may || Boolean(this.#missing));
    this.#button.title = may ? "" : "An attack is under way: stop it, or wait.";
  }

  /** Not by `disabled`, with which the button would lose the focus. */
  #disable(isDisabled) {
    this.#button.ariaDisabled = String(isDisabled);
  }

  /** Whether this run is drawn, as it is now. */
  has({ state, elapsed_ms: elapsed }) {
    return state !== "running" && this.#drawn === `${state} ${elapsed}`;
  }

  draw(run) {
    this.#drawn = `${run.state} ${run.elapsed_ms}`;
    if (!this.#chart) this.#make();
    const last = run.moments.at(-1) ?? { on: {}, off: {} };
    this.#chart.set([
      run.moments.map((moment) => moment.at_ms / 1000),
      ...SIDES.map(([side]) => rates(run.moments, side, this.#figure)),
    ]);
    const isRunning = run.state === "running";
    say(this.#state, isRunning ? words(run) : "");
    say(this.#verdict, run.verdict);
    look(this.#verdict, run.state === "failed" ? "verdict bad" : "verdict");
    this.#schemes.replaceChildren(...(run.schemes ? [schemes(run.schemes)] : []));
    this.#cells.forEach((cells, row) => {
      // A verdict comes with its figures, also while something else goes on.
      const figures = isRunning && !run.verdict ? last : run;
      SIDES.forEach(([side], index) => say(cells[index], this.#table[row][1](figures[side])));
    });
  }

  /** The chart and the table, once there is something to show. */
  #make() {
    this.#chart = new Chart(this.#result, chart(this.#figure));
    const body = element("tbody");
    for (const [title] of this.#table) {
      const cells = SIDES.map(([side, name]) =>
        element("td", { "data-side": side, "data-figure": title, "data-head": name }),
      );
      this.#cells.push(cells);
      body.append(element("tr", {}, element("th", { scope: "row" }, title), ...cells));
    }
    const head = SIDES.map(([, name]) => element("th", { scope: "col" }, name));
    const titles = element("thead", {}, element("tr", {}, element("td"), ...head));
    this.#result.append(element("table", { class: "numbers" }, titles, body));
  }
}

/** What the other schemes of the lab made of the same sale, or why that is not known. */
function schemes(all) {
  const figures = ["Sold", "More than there were", "Lost from the stock"];
  const rows = all.map(({ scheme, title, sold, oversold, lost, missing }) => {
    const cells = missing
      ? [element("td", { colspan: figures.length, class: "soft" }, missing)]
      : [sold, oversold, lost].map((many, place) => element("td", { "data-head": figures[place] }, count(many)));
    return element("tr", { "data-scheme": scheme }, element("th", { scope: "row" }, title), ...cells);
  });
  return table({ class: "numbers" }, ["Scheme of the lab", ...figures], rows);
}

/** A title within a sentence. */
const lower = (title) => (/^(Redis|FLUSHALL)/.test(title) ? title : title[0].toLowerCase() + title.slice(1));

function words({ moments, verdict, elapsed_ms: elapsed }) {
  const now = verdict ? "other schemes sell" : moments.length ? "under way" : "being prepared";
  return `${now}: ${seconds(elapsed / 1000)}`;
}

/** So many a second, from one moment to the next. */
function rates(moments, side, what) {
  return moments.map((now, index) => {
    const before = moments[index - 1] ?? { at_ms: 0, [side]: { [what]: 0 } };
    if (now.at_ms === before.at_ms) return null;
    return ((now[side][what] - before[side][what]) * 1000) / (now.at_ms - before.at_ms);
  });
}
