// What may be wrong, how it is seen in the snapshots, and what to do. Rules with an `alert` are those of
// dashboards/rules/alerts.yml, over the time that this page has seen: a test compares names and bounds. NotReady is
// said of each instance here, and the alert rings once none is ready.

import { count, percent, seconds } from "./format.js";

const MIN5 = 300;
const MIN10 = 600;
/** A reservation that comes while nothing is sold waits for less. */
const STILL = 30;
/** With few requests a single error, or a single slow one, is a large share of them. */
const FEWEST = 5;
/** The breakers of servers of which a quorum is enough: that of the quorum is `redis_lock`. */
const NODE = "redlock_node";

/** Each rule: `value` of a history, wrong when it is above `over`; `says` what is wrong; `todo` what helps. */
export const RULES = [
  {
    alert: "NotReady",
    level: "bad",
    over: 0,
    value: ({ newest }) => (newest.ready ? 0 : 1),
    says: (_, { newest }) =>
      `This instance is not ready: ${newest.problem.title.toLowerCase()} (${newest.problem.type}).`,
    todo: "Balancers send no requests here until that has ended. GET /readyz and the log say more.",
  },
  {
    level: "bad",
    over: 0,
    value: ({ newest }) => (newest.ready?.checks.lock_store === "down" ? 1 : 0),
    says: () => "The Redis of the locks does not answer: writes are refused with 503, reads go on without their lock.",
    todo: "Look at the server of LOCK_REDIS_URL. The service connects again by itself.",
  },
  {
    level: "bad",
    over: 0,
    value: ({ newest }) => (newest.ready?.checks.cache_store === "down" ? 1 : 0),
    says: () => "The Redis of the cache does not answer: reads come from memory and from Postgres.",
    todo: "Look at the server of CACHE_REDIS_URL. DB_MAX_LOADS protects Postgres meanwhile.",
  },
  {
    alert: "BreakerOpen",
    level: "bad",
    over: 0,
    value: ({ newest }) => openBreakers(newest).length,
    says: (_, { newest }) => `The service has given up for now on ${openBreakers(newest).join(", ")}.`,
    key: (_, { newest }) => openBreakers(newest).join(),
    todo: "Look at that server. The breaker tries again by itself and closes with the first answer.",
  },
  {
    alert: "RedlockNodeDown",
    level: "warn",
    over: 0,
    value: ({ newest }) => (isClosed(newest, NODE) === 0 ? 1 : 0),
    says: () => "A server of the locks does not answer. Locks go on while a quorum of the servers does.",
    todo: "Look at the servers of LOCK_REDIS_URL: the next loss may leave no quorum.",
  },
  {
    alert: "ServerErrors",
    level: "bad",
    over: 0.01,
    value: (history) => {
      const errors = history.rise("http_requests_total", MIN5, (status) => status.startsWith("5"));
      return errors >= FEWEST ? share(errors, history.rise("http_requests_total", MIN5)) : 0;
    },
    says: (value) => `${percent(value)} of the requests of the last minutes were answered 5xx.`,
    todo: "The type of the problem in the log says why. Look at the breakers and the database connections first.",
  },
  {
    alert: "SlowRequests",
    level: "bad",
    over: 14.4 * 0.01,
    value: (history) =>
      history.slower("http_request_duration_seconds_bucket", ["read/", "write/", "other/"], 0.25, MIN5, FEWEST),
    says: (value) => `${percent(value)} of the requests of the last minutes took longer than 250 ms.`,
    todo: "See whether locks waiting, database loads or Redis commands rose with it.",
  },
  {
    alert: "DatabaseConnections",
    level: "warn",
    over: 4,
    value: (history) => history.rise("inventory_database_timeouts_total", MIN5),
    says: (value) => `Requests got no connection to Postgres in time: ${count(value)} in the last minutes.`,
    todo: "The log says whether Postgres refuses. Else end long transactions, or raise DATABASE_MAX_CONNECTIONS.",
  },
  {
    alert: "LoadsAtTheirLimit",
    level: "warn",
    over: 4,
    value: (history) => history.rise("stockade_cache_requests_total", MIN5, (outcome) => outcome === "shed"),
    says: (value) => `${count(value)} reads were refused in the last minutes: as many loads as are allowed ran.`,
    todo: "Postgres is slow, or the cache misses too often. Keep DB_MAX_LOADS below DATABASE_MAX_CONNECTIONS.",
  },
  {
    alert: "SubscriptionDown",
    level: "warn",
    over: 0,
    value: (history) => 1 - (history.lowest("stockade_subscription_up") ?? 1),
    says: () => "This instance does not hear of invalidations, so it serves nothing from its memory.",
    todo: "It subscribes again by itself. If it does not: compare CLIENT LIST of Redis with maxclients.",
  },
  {
    alert: "OutboxLag",
    level: "warn",
    over: 30,
    value: (history) => history.now("stockade_outbox_lag_seconds"),
    says: (value) => `A committed invalidation has waited for ${seconds(value)}: cached values may be that old.`,
    todo: "Usually the Redis of the cache is down. If it is well, the log of the relay says what it is refused.",
  },
  {
    alert: "OutboxRefused",
    level: "warn",
    over: 0,
    value: (history) => history.now("stockade_outbox_refused_rows"),
    says: (value) => `The cache refuses ${count(value)} invalidations while it takes others.`,
    todo: "The log has the error, as a warning. Mend what it names; the rows are tried again each minute.",
  },
  {
    alert: "LocksLost",
    level: "warn",
    over: 0,
    value: (history) => history.rise("stockade_lock_lost_total", MIN10, (reason) => reason !== "forced"),
    says: (value, { newest }) =>
      `Holders lost ${count(value)} locks in the last minutes. The fence refuses what they write under it.` +
      (newest.lab ? " The attack “Stopped holder” loses some on purpose." : ""),
    todo: "The process was stopped or starved beyond LOCK_LEASE, or Redis was away or lost its data.",
  },
  {
    alert: "FenceRefusals",
    level: "warn",
    over: 0,
    value: (history) => history.rise("inventory_fence_rejected_total", MIN10),
    says: (value) => `The fence refused ${count(value)} writes in the last minutes: nothing was lost or applied twice.`,
    todo: "A few belong to lost locks. Without lost locks, the lock store was emptied or restored.",
  },
  {
    alert: "FlashDeadLetters",
    level: "warn",
    over: 0,
    value: (history) => history.rise("inventory_flash_entries_total", MIN10, (outcome) => outcome === "dead"),
    says: (value) => `${count(value)} reservations of flash sales could not be stored in the last minutes.`,
    todo: "The table flash_dead_letter has each of them with its error.",
  },
  {
    alert: "FlashRejected",
    level: "warn",
    over: 0,
    value: (history) => history.rise("inventory_flash_entries_total", MIN10, (outcome) => outcome === "rejected"),
    says: (value) => `${count(value)} reservations of flash sales were taken back in the last minutes.`,
    todo: "Redis came back without its last seconds. Tell these customers; FLASH_DURABLE=on prevents it.",
  },
  {
    alert: "FlashStandsStill",
    level: "bad",
    over: 0,
    value: (history) => {
      if (isUnaware(history)) return 1;
      const stored = history.rise("inventory_flash_entries_total", MIN5);
      return stored === 0 ? history.least("inventory_flash_stream_entries", STILL) : 0;
    },
    says: (value, history) =>
      isUnaware(history)
        ? "The flash sales are not known, whose acknowledged reservations may wait for Postgres."
        : `${count(value)} acknowledged reservations of flash sales wait for Postgres, and none is stored.`,
    todo: "The log says why: look for “stands still” or “not known”. They are stored once its cause is mended. Do not empty Redis.",
  },
];

/** The rules that are broken now, each with its value. */
export function broken(history) {
  return RULES.map((rule) => ({ rule, value: rule.value(history) })).filter(({ rule, value }) => value > rule.over);
}

/** The names of the breakers that are not closed: an open one is half-open for a moment with each probe. */
function openBreakers(snapshot) {
  const names = Object.keys(snapshot.metrics.stockade_breaker_state ?? {}).map((key) => key.split("/")[0]);
  return [...new Set(names)].filter((name) => name !== NODE && isClosed(snapshot, name) === 0);
}

const isClosed = (snapshot, name) => snapshot.metrics.stockade_breaker_state?.[`${name}/closed`];

/** Whether no instance has read yet which flash sales there are. */
const isUnaware = (history) => history.now("inventory_flash_known") === 0;

function share(part, whole) {
  return whole > 0 ? part / whole : null;
}
