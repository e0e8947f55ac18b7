// Which instance is asked.

import { TARGETS } from "./config.js";

let turn = 0;

/** The next instance. */
export function target() {
  turn += 1;
  return TARGETS[(__VU + turn) % TARGETS.length];
}
