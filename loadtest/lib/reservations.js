// What customers of a flash sale do.

import http from "k6/http";
import { check, sleep } from "k6";
import exec from "k6/execution";
import { CUSTOMERS } from "./config.js";
import { next, tell, unsettled } from "./journal.js";
import { target } from "./target.js";
import { decide } from "./updates.js";

/** How often a reservation is looked at until it is stored. */
const LOOKS = 20;

http.setResponseCallback(http.expectedStatuses({ min: 200, max: 299 }, 409));

/**
 * Reserves a unit, and follows the reservation until the database has it.
 * @param {string} run
 * @param {string} sku
 */
export function reserve(run, sku) {
  const { reference, key } = next(run);
  const body = JSON.stringify({ customer: `customer-${exec.scenario.iterationInTest % CUSTOMERS}`, quantity: 1 });
  const params = {
    headers: { "Content-Type": "application/json", "Idempotency-Key": key },
    tags: { name: "POST /flash/{sku}/reservations" },
  };
  const { answer, outcome } = decide(() =>
    http.post(`${target()}/flash/${encodeURIComponent(sku)}/reservations`, body, params),
  );
  tell(reference, [], outcome);
  check(answer, {
    // 503 is a refusal that promises that nothing was done; it counts as a failed request.
    "a reservation is answered": (r) => [201, 409, 503].includes(r.status),
  });
  if (outcome) {
    unsettled.add(1);
    check(stored(sku, String(answer.json("id"))), {
      "a reservation is stored": (r) => r.status === 200 && r.json("state") === "stored",
    });
  } else if (answer.status === 409 && answer.json("type") === "/problems/sold-out") {
    const shown = http.get(`${target()}/flash/${encodeURIComponent(sku)}`, { tags: { name: "GET /flash/{sku}" } });
    check(shown, {
      "sold out means that nothing is left": (r) => r.status === 200 && r.json("remaining") === 0,
    });
  }
}

/**
 * The reservation, once it is stored; as it is after some looks.
 * @param {string} sku
 * @param {string} id
 */
function stored(sku, id) {
  const params = { tags: { name: "GET /flash/{sku}/reservations/{id}" } };
  const look = () => http.get(`${target()}/flash/${encodeURIComponent(sku)}/reservations/${id}`, params);
  let shown = look();
  for (let looks = 1; shown.status !== 200 || shown.json("state") === "pending"; looks += 1) {
    if (looks === LOOKS) {
      break;
    }
    sleep(0.1);
    shown = look();
  }
  return shown;
}
