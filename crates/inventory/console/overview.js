// The tiles and charts: what the instance does now, and did in the last five minutes.

import { Chart } from "./chart.js";
import { element, look, say } from "./dom.js";
import { count, percent, perSecond, seconds } from "./format.js";

const RATE_S = 5;
const QUANTILE_S = 15;
const ELSEWHERE = ["null", "stale", "bloom_reject"];
const DURATION = "http_request_duration_seconds_bucket";
const READS = "stockade_cache_requests_total";

/** The figures of this moment. A rate is `null` with the first snapshot. */
function figures(history) {
  const requests = (first) => history.rate("http_requests_total", RATE_S, (status) => status.startsWith(first));
  const quantile = (access, part) => history.quantile(DURATION, `${access}/`, part, QUANTILE_S);
  const reads = history.rate(READS, RATE_S);
  const tier = (...outcomes) => {
    const part = history.rate(READS, RATE_S, (outcome) => outcomes.includes(outcome));
    return reads > 0 ? part / reads : null;
  };
  return {
    requests: history.rate("http_requests_total", RATE_S),
    classes: ["2", "3", "4", "5"].map(requests),
    read: [quantile("read", 0.5), quantile("read", 0.99)],
    write: [quantile("write", 0.5), quantile("write", 0.99)],
    reads,
    loads: history.rate("stockade_cache_loads_total", RATE_S),
    spared: tier("hit_local", "hit_redis", ...ELSEWHERE),
    tiers: [tier("hit_local"), tier("hit_redis"), tier(...ELSEWHERE)],
    held: history.now("stockade_locks_held"),
    kept: history.now("stockade_lock_delegations"),
    waiting: history.now("stockade_lock_waiters"),
    handoff: [0.5, 0.99].map((part) => history.quantile("stockade_lock_handoff_seconds_bucket", "", part, QUANTILE_S)),
    lag: history.now("stockade_outbox_lag_seconds"),
  };
}

/** Each tile: its name; of the figures: the big one, the line below, the level. */
const TILES = [
  [
    "Requests",
    (now) => [perSecond(now.requests), `5xx: ${perSecond(now.classes[3])}`, now.classes[3] > 0 ? "bad" : ""],
  ],
  ["Reads, p99", (now) => [seconds(now.read[1]), `median ${seconds(now.read[0])}`, now.read[1] > 0.25 ? "warn" : ""]],
  [
    "Writes, p99",
    (now) => [seconds(now.write[1]), `median ${seconds(now.write[0])}`, now.write[1] > 0.25 ? "warn" : ""],
  ],
  ["Reads without Postgres", (now) => [percent(now.spared), `as absent or stale: ${percent(now.tiers[2])}`, ""]],
  ["Database loads", (now) => [perSecond(now.loads), `for ${perSecond(now.reads)} reads`, ""]],
  ["Locks held", (now) => [count(now.held), `requests waiting: ${count(now.waiting)}`, ""]],
  ["Hand-off of locks, p99", (now) => [seconds(now.handoff[1]), `median ${seconds(now.handoff[0])}`, ""]],
  ["Outbox lag", (now) => [seconds(now.lag), "oldest invalidation", now.lag > 30 ? "warn" : ""]],
];

/** Each chart: what it shows, and its values of the figures. */
const CHARTS = [
  [
    { title: "Requests", unit: "a second, by status", lines: ["2xx", "304", "4xx", "5xx"], format: perSecond },
    (now) => now.classes,
  ],
  [{ title: "Reads", unit: "time to the answer", lines: ["median", "p99"], format: seconds }, (now) => now.read],
  [
    {
      title: "Writes",
      unit: "time to the answer, lock included",
      lines: ["median", "p99"],
      format: seconds,
    },
    (now) => now.write,
  ],
  [
    { title: "What Postgres is spared", unit: "a second", lines: ["cache reads", "database loads"], format: perSecond },
    (now) => [now.reads, now.loads],
  ],
  [
    {
      title: "Answered by",
      unit: "share of cache reads",
      lines: ["memory", "Redis", "absent, stale"],
      format: percent,
    },
    (now) => now.tiers,
  ],
  [
    { title: "Locks", unit: "of the instances shown", lines: ["held", "waiting", "kept for readers"], format: count },
    (now) => [now.held, now.waiting, now.kept],
  ],
];

export class Overview {
  #tiles;
  #charts;

  constructor(tiles, charts) {
    this.#tiles = TILES.map(([name]) => {
      const [big, small] = [element("dd", {}, "–"), element("dd", {}, "–")];
      const tile = element("div", { class: "tile" }, element("dt", {}, name), big, small);
      tiles.append(tile);
      return { tile, big, small };
    });
    this.#charts = CHARTS.map(([options]) => new Chart(charts, options));
  }

  /** Forgets all figures. */
  clear() {
    for (const { tile, big, small } of this.#tiles) {
      look(tile, "tile");
      [big, small].forEach((figure) => say(figure, "–"));
    }
    this.#charts.forEach((chart) => chart.clear());
  }

  show(history) {
    const now = figures(history);
    TILES.forEach(([, figure], place) => {
      const [large, below, level] = figure(now);
      const { tile, big, small } = this.#tiles[place];
      look(tile, `tile ${level}`.trim());
      say(big, large);
      say(small, below);
    });
    CHARTS.forEach(([, values], place) => this.#charts[place].add(history.newest.at_ms / 1000, values(now)));
  }
}
