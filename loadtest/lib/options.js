// What all scripts have in common: how requests arrive, and what fails a run.

import { READ_RATE, WRITE_RATE } from "./config.js";

const DURATION = __ENV.DURATION || "1m";

/** What fails a run of a script that writes. The README says what each metric is. */
export const LEDGER = {
  unsettled: ["avg==0"],
  ledger_agrees: ["rate==1"],
  outcomes_known: ["rate==1"],
  applied: ["rate>0.9"],
};

/** What fails a run that drops cached values. */
export const LOADS = { loads_bounded: ["rate==1"] };

/** What fails every run. Counts would depend on how long it takes. */
export const ANSWERS = {
  checks: ["rate==1"],
  http_req_failed: ["rate<0.01"],
  dropped_iterations: ["rate<1"],
};

/** What fails a run of a flash sale, in which many are refused since nothing is left. */
export const FLASH = {
  ...ANSWERS,
  unsettled: ["avg==0"],
  ledger_agrees: ["rate==1"],
  outcomes_known: ["rate==1"],
};

/**
 * Iterations that start at a constant rate, whatever the service does.
 * @param {string} exec the function that is run
 * @param {number} rate per second
 * @param {string} [duration]
 * @param {number} [seconds] in place of one
 * @returns {import("k6/options").Scenario}
 */
function arrivals(exec, rate, duration = DURATION, seconds = 1) {
  return {
    executor: "constant-arrival-rate",
    exec,
    rate,
    timeUnit: `${seconds}s`,
    duration,
    preAllocatedVUs: 50,
    maxVUs: 500,
    // An iteration that is cut off leaves an update of which nobody knows the outcome.
    gracefulStop: "2m",
  };
}

/**
 * @param {string} exec
 * @param {string} [duration]
 */
export const reads = (exec, duration) => arrivals(exec, READ_RATE, duration);

/**
 * @param {string} exec
 * @param {string} [duration]
 */
export const writes = (exec, duration) => arrivals(exec, WRITE_RATE, duration);

/**
 * Cached values are dropped once in so many seconds.
 * @param {string} exec
 * @param {number} seconds
 */
export const drops = (exec, seconds) => arrivals(exec, 1, DURATION, Number(__ENV.DROP_EVERY || seconds));

/** Setup and teardown may page through long ledgers. */
export const TIMES = { setupTimeout: "5m", teardownTimeout: "10m" };
