// The snapshots of the last minutes, and what follows from two of them: rates, shares, quantiles.

const KEPT_MS = 10 * 60 * 1000;
/** An instance that was not heard for so long, while others were, counts in one leap what it did meanwhile. */
const SILENT_MS = 3000;
const COUNTER = /_(total|bucket)$/;

export class History {
  /** The newest snapshot as it came, with the counters since the start of each instance. */
  newest;
  /** The snapshots of the last minutes, with what the counters rose by since the first of them. */
  #snapshots = [];
  /** The last snapshot of each instance by its id, and when it was heard. */
  #last = new Map();

  /**
   * Adds a snapshot, which is that of these instances together. The counters are added up by how much they rose in each
   * instance, so that none rises or falls with an instance that joins or goes. After a step of the clock backwards
   * nothing can be told from the times: older snapshots are dropped.
   */
  add(snapshot, instances = [{ snapshot }]) {
    if (this.newest?.at_ms > snapshot.at_ms) this.#snapshots = [];
    this.newest = snapshot;
    const { at_ms: now } = snapshot;
    const before = this.#snapshots.at(-1)?.at_ms ?? now;
    const leaps = instances.some(({ id }) => before - (this.#last.get(id)?.heard ?? before) > SILENT_MS);
    this.#snapshots.push({ at_ms: now, leaps, metrics: { ...snapshot.metrics, ...this.#risen(instances) } });
    const oldest = now - KEPT_MS;
    while (this.#snapshots[0].at_ms < oldest) this.#snapshots.shift();
    for (const [id, { heard }] of this.#last) if (heard < oldest) this.#last.delete(id);
  }

  /** The counters of the last snapshot, and what each instance has counted since. A new one has counted nothing. */
  #risen(instances) {
    const before = Object.entries(this.#snapshots.at(-1)?.metrics ?? {}).filter(([family]) => COUNTER.test(family));
    const risen = Object.fromEntries(before.map(([family, series]) => [family, copy(series)]));
    for (const { id, snapshot } of instances) {
      const last = this.#last.get(id)?.snapshot ?? snapshot;
      for (const [family, series] of Object.entries(snapshot.metrics)) {
        if (!COUNTER.test(family)) continue;
        const sum = (risen[family] ??= copy({}));
        for (const [key, value] of Object.entries(series)) {
          sum[key] = (sum[key] ?? 0) + Math.max(0, value - (last.metrics[family]?.[key] ?? 0));
        }
      }
      this.#last.set(id, { snapshot, heard: this.newest.at_ms });
    }
    return risen;
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
    const after = sum(this.#snapshots.at(-1), family, wanted);
    return after === null ? null : after - (sum(this.before(seconds), family, wanted) ?? 0);
  }

  /** How fast a counter rose, by the second; `null` with the first snapshot, and while a leap is among them. */
  rate(family, seconds, wanted) {
    const since = this.before(seconds);
    if (this.#snapshots.slice(this.#snapshots.indexOf(since) + 1).some(({ leaps }) => leaps)) return null;
    const elapsed = (this.newest.at_ms - since.at_ms) / 1000;
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
    const after = this.#snapshots.at(-1).metrics[family] ?? {};
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

/** Without a prototype: a name such as `__proto__`, which any instance may send, is a name and nothing else. */
const copy = (series) => Object.assign(Object.create(null), series);

function sum(snapshot, family, wanted = () => true) {
  const series = snapshot.metrics[family];
  if (!series) return null;
  return Object.entries(series).reduce((total, [key, value]) => (wanted(key) ? total + value : total), 0);
}
