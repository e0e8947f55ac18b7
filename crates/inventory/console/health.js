// The table of what the instance needs, and how each of it is.

import { element, look, say, table } from "./dom.js";
import { count, perSecond, seconds } from "./format.js";

const LATELY_S = 15;
const COMMANDS = "stockade_redis_command_seconds_bucket";

/** Each row: what it is; its state as [word, level, figures]. */
const ROWS = [
  ["Redis of the locks", (history) => server(history, "lock_store", "redis_lock", "lock")],
  ["Redis of the cache", (history) => server(history, "cache_store", "redis_cache", "cache")],
  ["Commands of Redis", commands],
  ["Postgres", postgres],
  ["Subscription to invalidations", subscription],
  ["Relay of the outbox", relay],
  ["Fence", fence],
];

/** The worst state: of several instances each may have another one. */
function breaker({ newest }, name) {
  const states = newest.metrics.stockade_breaker_state ?? {};
  const state = ["open", "half_open", "closed"].find((state) => states[`${name}/${state}`] > 0);
  return state ? `breaker ${state.replace("_", "-")}` : "no breaker yet";
}

function server(history, check, name, role) {
  const up = history.newest.ready?.checks[check];
  const errors = history.rate("stockade_redis_errors_total", LATELY_S, (key) => key === role);
  const figures = `${breaker(history, name)} · failed commands ${perSecond(errors)}`;
  if (!up) return ["not known while not ready", "warn", figures];
  return up === "ok" ? ["up", "good", figures] : ["down", "bad", figures];
}

function commands(history) {
  const [median, p99] = [0.5, 0.99].map((part) => history.quantile(COMMANDS, "", part, LATELY_S));
  const again = count(history.now("stockade_redis_reconnects_total"));
  const figures = `median ${seconds(median)} · p99 ${seconds(p99)} · reconnections ${again}`;
  // One snapshot says nothing of the last seconds.
  if (history.rate(COMMANDS, LATELY_S) === null) return ["", "good", figures];
  if (p99 === null) return ["none answered", "warn", figures];
  return p99 > 0.1 ? ["slow", "warn", figures] : ["quick", "good", figures];
}

function postgres(history) {
  const busy = history.now("inventory_database_connections", (state) => state === "busy");
  const most = history.now("inventory_database_connections_max");
  const figures = `${breaker(history, "database")} · ${count(busy)} of ${count(most)} connections busy`;
  const { ready, problem } = history.newest;
  if (ready) return ["up", "good", figures];
  return problem.type === "database-unavailable"
    ? ["down", "bad", figures]
    : [problem.title.toLowerCase(), "warn", figures];
}

function subscription(history) {
  const bound = seconds(history.now("stockade_cache_local_staleness_bound_seconds"));
  const isUp = history.lowest("stockade_subscription_up");
  if (isUp === null) return ["not used", "good", ""];
  return isUp
    ? ["live", "good", `values in memory miss writes for ${bound} at most`]
    : ["down", "warn", "nothing is served from memory"];
}

function relay(history) {
  const [lag, refused] = [history.now("stockade_outbox_lag_seconds"), history.now("stockade_outbox_refused_rows") ?? 0];
  const figures = `oldest invalidation ${seconds(lag)} · ${count(refused)} refused rows`;
  if (lag === null) return ["not started", "warn", figures];
  if (refused > 0) return ["refused", "warn", figures];
  return lag > 30 ? ["behind", "warn", figures] : ["up to date", "good", figures];
}

function fence(history) {
  const refused = history.now("inventory_fence_rejected_total");
  return [refused ? "has refused" : "quiet", "good", `${count(refused)} writes refused since the start`];
}

export class Health {
  #cells;

  constructor(parent) {
    this.#cells = ROWS.map(() => [element("td", { class: "word" }), element("td")]);
    const rows = ROWS.map(([name], row) =>
      element("tr", {}, element("th", { scope: "row" }, name), ...this.#cells[row]),
    );
    parent.append(element("div", { class: "table" }, table({}, ["Part", "State", "Figures"], rows)));
  }

  /** Forgets all figures. */
  clear() {
    for (const cell of this.#cells.flat()) say(cell, "");
  }

  show(history) {
    ROWS.forEach(([, state], row) => {
      const [word, level, figures] = state(history);
      const [first, second] = this.#cells[row];
      look(first, `word ${level}`);
      say(first, word);
      say(second, figures);
    });
  }
}
