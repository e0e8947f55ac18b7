// One chart: a title, what its lines are at now in words, and the lines of the last five minutes.

import { element, say } from "./dom.js";

const SHOWN_S = 300;
const SHOWN_AT_FIRST_S = 60;
const HEIGHT = 170;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  #format;
  #columns;
  #plot;
  #values;

  /** `lines` are the names of the lines; `format` writes a value with its unit. */
  constructor(parent, { title, unit, lines, format }) {
    this.#format = format;
    this.#columns = [[], ...lines.map(() => [])];
    this.#values = lines.map(() => element("b", {}, "–"));
    const legend = element("ul", { class: "legend" });
    lines.forEach((line, index) => {
      legend.append(
        element("li", {}, element("span", { class: `swatch s${index + 1}` }), `${line} `, this.#values[index]),
      );
    });
    const body = element("div", { class: "plot", "aria-hidden": "true" });
    const heading = element("h3", {}, `${title} `, element("span", {}, unit));
    parent.append(element("figure", { class: "chart", role: "group", "aria-label": title }, heading, legend, body));
    this.#plot = new uPlot(this.#options(body, lines, format), this.#columns, body);
    new ResizeObserver(() => this.#plot.setSize({ width: body.clientWidth, height: HEIGHT })).observe(body);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#plot.redraw());
  }

  #options(body, lines, format) {
    const axis = {
      stroke: () => colour("--soft"),
      grid: { stroke: () => colour("--grid"), width: 1 },
      ticks: { show: false },
    };
    const times = (_, splits) => splits.map((time) => new Date(time * 1000).toLocaleTimeString("en-GB"));
    return {
      width: Math.max(body.clientWidth, 200),
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: true, range: (_, low, high) => [Math.min(low, high - SHOWN_AT_FIRST_S), high] },
        y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] },
      },
      axes: [
        { ...axis, space: 90, size: 26, values: times },
        { ...axis, size: 68, space: 34, values: (_, splits) => splits.map((value) => format(value)) },
      ],
      series: [
        {},
        ...lines.map((line, index) => ({
          label: line,
          stroke: () => colour(`--c${index + 1}`),
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
  }

  /** Writes the values under the pointer, or the newest. */
  #show(index) {
    const place = index ?? this.#columns[0].length - 1;
    this.#values.forEach((value, line) => say(value, this.#format(this.#columns[line + 1][place] ?? null)));
  }
}
