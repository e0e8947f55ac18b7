// `k6/metrics`, as far as the scripts use it, and the thresholds on them.

const values = new Map();

class Metric {
  constructor(name) {
    this.name = name;
    // Every client makes it again; its values are one list.
    values.set(name, values.get(name) || []);
  }

  add(value) {
    values.get(this.name).push(Number(value));
  }
}

export class Rate extends Metric {}
export class Trend extends Metric {}

export const checks = new Rate("checks");

/** The thresholds that were crossed. As in k6, one on a metric without values is not; one on no metric is refused. */
export function crossed(thresholds) {
  return Object.entries(thresholds).flatMap(([name, conditions]) => {
    const isKnown = values.has(name) || /^(http_req_|dropped_iterations$)/.test(name);
    if (!isKnown) throw new Error(`no metric is called ${name}`);
    const of = values.get(name) || [];
    return of.length === 0 ? [] : conditions.filter((it) => !holds(it, of)).map((it) => `${name}: ${it}`);
  });
}

function holds(condition, of) {
  const [, what, operator, limit] = /^(rate|avg)(==|<|>)([\d.]+)$/.exec(condition);
  const mean = (what === "rate" ? of.filter((it) => it !== 0).length : of.reduce((sum, it) => sum + it, 0)) / of.length;
  return { "==": mean === Number(limit), "<": mean < Number(limit), ">": mean > Number(limit) }[operator];
}
