// One chart: a title, what its lines are at now in words, and the lines: of the last five minutes, or of a run.

import { element, say } from "./dom.js";
import { count } from "./format.js";

const SHOWN_S = 300;
const SHOWN_AT_FIRST_S = 60;
const HEIGHT = 170;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  #format;
  #columns;
  #length;
  #plot;
  #values;

  /**
   * `lines` are the names of the lines; `format` writes a value with its unit. With a `length` the chart is one of a
   * run: its seconds are those since the run began, at least so many.
   */
  constructor(parent, { title, unit, lines, format, length = null, colours = lines.map((_, index) => index + 1) }) {
    [this.#format, this.#length] = [format, length];
    this.#columns = [[], ...lines.map(() => [])];
    this.#values = lines.map(() => element("b", {}, "–"));
    const legend = element("ul", { class: "legend" });
    lines.forEach((line, index) => {
      legend.append(
        element("li", {}, element("span", { class: `swatch s${colours[index]}` }), `${line} `, this.#values[index]),
      );
    });
    const body = element("div", { class: "plot", "aria-hidden": "true" });
    const heading = element("h3", {}, `${title} `, element("span", {}, unit));
    parent.append(element("figure", { class: "chart", role: "group", "aria-label": title }, heading, legend, body));
    this.#plot = new uPlot(this.#options(body, { lines, format, length, colours }), this.#columns, body);
    new ResizeObserver(() => this.#plot.setSize({ width: body.clientWidth, height: HEIGHT })).observe(body);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#plot.redraw());
  }

  #options(body, { lines, format, length, colours }) {
    const axis = {
      stroke: () => colour("--soft"),
      grid: { stroke: () => colour("--grid"), width: 1 },
      ticks: { show: false },
    };
    const times = (_, splits) => splits.map((time) => new Date(time * 1000).toLocaleTimeString("en-GB"));
    const passed = (_, splits) => splits.map((time) => `${time} s`);
    // A count between whole numbers would repeat the words of one of them.
    const written = (value) => (format === count && !Number.isInteger(value) ? "" : format(value));
    const recent = (_, low, high) => [Math.min(low, high - SHOWN_AT_FIRST_S), high];
    const whole = (_, low, high) => [0, Math.max(length, high)];
    return {
      width: Math.max(body.clientWidth, 200),
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: length === null, range: length === null ? recent : whole },
        y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] },
      },
      axes: [
        { ...axis, space: 90, size: 26, values: length === null ? times : passed },
        { ...axis, size: 68, space: 34, values: (_, splits) => splits.map(written) },
      ],
      series: [
        {},
        ...lines.map((line, index) => ({
          label: line,
          stroke: () => colour(`--c${colours[index]}`),
          width: 1.75,
          points: { show: false },
          spanGaps: false,
        })),
      ],
      hooks: { setCursor: [(plot) => this.#show(plot.cursor.idx)] },
    };
  }

  /** Adds the values of a moment, in seconds since 1970; `null` leaves a gap. */
  add(at, values) {
    // The clock was set back: the lines begin anew.
    if (this.#columns[0].at(-1) > at) this.#columns.forEach((column) => column.splice(0));
    this.#columns[0].push(at);
    values.forEach((value, index) => this.#columns[index + 1].push(Number.isFinite(value) ? value : null));
    while (this.#columns[0][0] < at - SHOWN_S) this.#columns.forEach((column) => column.shift());
    this.#plot.setData(this.#columns);
    this.#show(this.#plot.cursor.idx);
  }

  /** Forgets all moments. */
  clear() {
    this.#columns.forEach((column) => column.splice(0));
    this.#plot.setData(this.#columns);
    this.#show();
  }

  /** Takes a whole run: its seconds, and the values of each line. */
  set(columns) {
    this.#columns = columns;
    this.#plot.setData(columns);
    this.#show(this.#plot.cursor.idx);
  }

  /** Writes the values under the pointer; without one the newest, or the highest of a run. */
  #show(index) {
    const place = index ?? this.#columns[0].length - 1;
    this.#values.forEach((value, line) => {
      const column = this.#columns[line + 1];
      const isHighest = this.#length !== null && !Number.isInteger(index);
      const shown = this.#format(isHighest ? Math.max(0, ...column) : (column[place] ?? null));
      say(value, isHighest ? `up to ${shown}` : shown);
    });
  }
}
