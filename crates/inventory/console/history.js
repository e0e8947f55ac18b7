// The snapshots of the last minutes, and what follows from two of them: rates, shares, quantiles.

const KEPT_MS = 10 * 60 * 1000;

export class History {
  #snapshots = [];

  /**
   * Adds a snapshot. After a restart of the instance its counters begin again, and after a step of its clock backwards
   * nothing can be told from the times: older snapshots are dropped.
   */
  add(snapshot) {
    const { newest } = this;
    if (newest && (started(newest) !== started(snapshot) || newest.at_ms > snapshot.at_ms)) this.#snapshots = [];
    this.#snapshots.push(snapshot);
    const oldest = snapshot.at_ms - KEPT_MS;
    while (this.#snapshots[0].at_ms < oldest) this.#snapshots.shift();
  }

  get newest() {
    return this.#snapshots.at(-1);
  }

  /** The snapshot from so many seconds before the newest; the oldest one where the page was opened later. */
  before(seconds) {
    const at = this.newest.at_ms - seconds * 1000 - 300;
    return this.#snapshots.find((snapshot) => snapshot.at_ms >= at);
  }

  /** The value of a gauge, added over the keys that are `wanted`; `null` where there is no such family. */
  now(family, wanted = () => true) {
    return sum(this.newest, family, wanted);
  }

  /** The lowest value of a gauge over its keys; `null` where there is no such family. */
  lowest(family) {
    const series = this.newest.metrics[family];
    return series ? Math.min(...Object.values(series)) : null;
  }

  /** The lowest value of a gauge over the last seconds; `null` where the page has not seen all of them. */
  least(family, seconds) {
    const since = this.#snapshots.indexOf(this.before(seconds));
    if (this.newest.at_ms - this.#snapshots[since].at_ms < (seconds - 1) * 1000) return null;
    return Math.min(...this.#snapshots.slice(since).map((snapshot) => sum(snapshot, family) ?? 0));
  }

  /** By how much a counter rose in the last seconds. */
  rise(family, seconds, wanted = () => true) {
    const after = sum(this.newest, family, wanted);
    return after === null ? null : Math.max(0, after - (sum(this.before(seconds), family, wanted) ?? 0));
  }

  /** How fast a counter rose, by the second; `null` with the first snapshot. */
  rate(family, seconds, wanted) {
    const elapsed = (this.newest.at_ms - this.before(seconds).at_ms) / 1000;
    const rise = this.rise(family, seconds, wanted);
    return elapsed > 0 && rise !== null ? rise / elapsed : null;
  }

  /**
   * A quantile of what a histogram recorded in the last seconds, in seconds: linear inside its bucket, as Prometheus
   * does it. `null` when nothing was recorded. `prefix` is what stands in front of `le` in the keys.
   */
  quantile(family, prefix, quantile, seconds) {
    const buckets = this.#buckets(family, prefix, seconds);
    const total = buckets.at(-1)?.count ?? 0;
    if (total === 0) return null;
    const rank = quantile * total;
    let [low, below] = [0, 0];
    for (const { le, count } of buckets) {
      if (count >= rank) return le === Infinity ? Infinity : low + ((le - low) * (rank - below)) / (count - below);
      [low, below] = [le, count];
    }
    return null;
  }

  /**
   * The share of what a histogram recorded in the last seconds that took longer than `limit`; `null` where that is
   * fewer than `fewest`.
   */
  slower(family, prefixes, limit, seconds, fewest) {
    let [total, quick] = [0, 0];
    for (const prefix of prefixes) {
      const buckets = this.#buckets(family, prefix, seconds);
      total += buckets.at(-1)?.count ?? 0;
      quick += buckets.find(({ le }) => le === limit)?.count ?? 0;
    }
    return total - quick >= fewest ? 1 - quick / total : null;
  }

  #buckets(family, prefix, seconds) {
    const after = this.newest.metrics[family] ?? {};
    const before = this.before(seconds).metrics[family] ?? {};
    return Object.entries(after)
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, count]) => {
        const le = key.slice(prefix.length);
        return { le: le === "+Inf" ? Infinity : Number(le), count: count - (before[key] ?? 0) };
      })
      .sort((one, other) => one.le - other.le);
  }
}

function started(snapshot) {
  return snapshot.metrics.process_start_time_seconds?.[""];
}

function sum(snapshot, family, wanted = () => true) {
  const series = snapshot.metrics[family];
  if (!series) return null;
  return Object.entries(series).reduce((total, [key, value]) => (wanted(key) ? total + value : total), 0);
}
