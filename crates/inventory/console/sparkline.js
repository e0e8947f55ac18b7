// A small line without axes: how a quantity went.

import { count } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [120, 24];

function shape(tag, properties) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  return made;
}

/** A line through `values`, oldest first. Its label says the same to those who do not see it. */
export function sparkline(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const range = `quantity from ${count(low)} to ${count(high)}, now ${count(values.at(-1))}`;
  const label = values.length > 0 ? `last movements: ${count(values.length)}; ${range}` : "no movements";
  const svg = shape("svg", { class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  // One movement is drawn as a level line.
  const drawn = values.length === 1 ? [values[0], values[0]] : values;
  const points = drawn.map((value, place) => {
    const x = (place / (drawn.length - 1)) * (WIDTH - 4) + 2;
    const y = high > low ? HEIGHT - 3 - ((value - low) / (high - low)) * (HEIGHT - 6) : HEIGHT / 2;
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  svg.append(shape("polyline", { points: points.join(" ") }));
  return svg;
}
