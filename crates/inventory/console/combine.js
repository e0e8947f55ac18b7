// One snapshot for several instances: counters are added, and of a few gauges the worst counts.

const HIGHEST = [
  // Each instance counts the entries of all sales.
  "inventory_flash_stream_entries",
  "stockade_outbox_lag_seconds",
  "stockade_outbox_refused_rows",
  "stockade_cache_local_staleness_bound_seconds",
];
const LOWEST = ["stockade_subscription_up", "stockade_cache_vouched_for"];

/** `named` is a list of [address, snapshot]. */
export function combine(named) {
  if (named.length === 1) return named[0][1];
  const snapshots = named.map(([, snapshot]) => snapshot);
  // Without a prototype: a name such as `__proto__`, which any instance may send, is a name and nothing else.
  const metrics = Object.create(null);
  for (const snapshot of snapshots) {
    for (const [family, series] of Object.entries(snapshot.metrics)) {
      const sum = (metrics[family] ??= Object.create(null));
      for (const [key, value] of Object.entries(series)) {
        sum[key] = key in sum ? joinOf(family, key)(sum[key], value) : value;
      }
    }
  }
  return {
    ...snapshots[0],
    version: [...new Set(snapshots.map((snapshot) => snapshot.version))].join(", "),
    metrics,
    ...readiness(named),
  };
}

function joinOf(family, key) {
  // A breaker counts as closed only where it is closed in all instances, and as open where it is open in one.
  if (family === "stockade_breaker_state") return key.endsWith("/closed") ? Math.min : Math.max;
  if (HIGHEST.includes(family)) return Math.max;
  return LOWEST.includes(family) ? Math.min : (one, other) => one + other;
}

/** All are ready, with the worst of each check, or one of them is not. */
function readiness(named) {
  const unready = named.find(([, snapshot]) => !snapshot.ready);
  if (unready) {
    const [address, { problem }] = unready;
    return { ready: null, problem: { ...problem, title: `${problem.title} at ${address}` } };
  }
  const checks = {};
  for (const [, { ready }] of named) {
    for (const [name, state] of Object.entries(ready.checks)) {
      checks[name] = checks[name] && checks[name] !== "ok" ? checks[name] : state;
    }
  }
  return { ready: { ...named[0][1].ready, checks }, problem: null };
}
