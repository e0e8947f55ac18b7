// `k6`, `k6/data` and `k6/execution`, as far as the scripts use them.

import { checks } from "./metrics.mjs";

export const scenario = { iterationInTest: 0 };
export default { scenario };

export function check(value, conditions) {
  return Object.entries(conditions).every(([name, holds]) => {
    const held = Boolean(holds(value));
    checks.add(held);
    if (!held) console.error(`check failed: ${name}: ${value.status} ${value.body}`);
    return held;
  });
}

export function fail(message) {
  throw new Error(message);
}

export function sleep(seconds) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
}

export class SharedArray {
  constructor(_name, make) {
    return make();
  }
}
