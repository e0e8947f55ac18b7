// What writers do. Each update is told to the journal.

import http from "k6/http";
import { check, sleep } from "k6";
import { next, tell } from "./journal.js";
import { target } from "./target.js";

/** How often an update is sent whose outcome is unknown, always with the same Idempotency-Key. */
const TRIES = 10;

/**
 * @param {string} key
 * @param {string} name
 */
const params = (key, name) => ({
  headers: { "Content-Type": "application/json", "Idempotency-Key": key },
  tags: { name },
});

/**
 * An adjustment under the lock.
 * @param {string} run
 * @param {string} sku
 * @param {number} delta
 * @param {boolean} [twice] sent again, as by a client that did not hear the answer
 */
export function adjust(run, sku, delta, twice = false) {
  const { reference, key } = next(run);
  const body = JSON.stringify({ delta, reference });
  const send = () => {
    const headers = params(key, "POST /stock/{sku}/adjustments");
    return http.post(`${target()}/stock/${encodeURIComponent(sku)}/adjustments`, body, headers);
  };
  const first = settle(send, reference, [sku]);
  check(first, {
    "a write has a fencing token": (r) => r.status !== 200 || Number(r.json("fencing_token")) > 0,
  });
  if (twice && first.status === 200) {
    check(send(), {
      "a repeated adjustment gives the first answer": (r) =>
        r.status === 200 && r.headers["Idempotent-Replayed"] === "true" && r.body === first.body,
    });
  }
}

/**
 * One unit goes from one SKU to another, under both locks.
 * @param {string} run
 * @param {string} from
 * @param {string} to
 */
export function transfer(run, from, to) {
  const { reference, key } = next(run);
  const body = JSON.stringify({ from, to, quantity: 1, reference });
  const send = () => http.post(`${target()}/transfers`, body, params(key, "POST /transfers"));
  const answer = settle(send, reference, [from, to]);
  check(answer, {
    "a transfer has two fencing tokens": (r) =>
      r.status !== 200 || Object.keys(Object(r.json("fencing_tokens"))).length === 2,
  });
}

/**
 * Sends an update until its outcome is known.
 * @param {() => import("k6/http").RefinedResponse<"text">} send
 * @param {string} reference
 * @param {string[]} skus
 */
function settle(send, reference, skus) {
  const { answer, outcome } = decide(send);
  tell(reference, skus, outcome);
  check(answer, {
    // 423 and 429 are refusals that promise that nothing was done; they count as failed requests.
    "an update is answered": (r) => [200, 409, 423, 429, 503].includes(r.status),
  });
  return answer;
}

/**
 * Sends until the answer says whether it was applied, which is the outcome.
 * @param {() => import("k6/http").RefinedResponse<"text">} send
 */
export function decide(send) {
  let answer = send();
  for (let tries = 1; applied(answer) === undefined && tries < TRIES; tries += 1) {
    sleep(0.5);
    answer = send();
  }
  return { answer, outcome: applied(answer) };
}

/**
 * Every refusal says whether something was applied; without an answer nobody knows.
 * @param {import("k6/http").RefinedResponse<"text">} answer
 * @returns {boolean | undefined}
 */
function applied(answer) {
  if (answer.status === 200 || answer.status === 201) {
    return true;
  }
  const problem = (answer.headers["Content-Type"] || "").startsWith("application/problem+json");
  return problem && answer.json("applied") === false ? false : undefined;
}
