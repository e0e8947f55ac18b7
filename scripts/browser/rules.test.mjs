// The rules of the console: what each of them sees in the snapshots of an instance, and what it says.

import assert from "node:assert/strict";
import { test } from "node:test";
import { combine } from "./console/combine.js";
import { History } from "./console/history.js";
import { broken, RULES } from "./console/rules.js";

const READY = { ready: { checks: { lock_store: "ok", cache_store: "ok" } }, problem: null };
/** An instance with traffic and without trouble. */
const WELL = {
  http_requests_total: { 200: 100, 503: 0 },
  http_request_duration_seconds_bucket: { "read/0.25": 100, "read/+Inf": 100 },
  inventory_database_timeouts_total: { "": 0 },
  inventory_fence_rejected_total: { "": 0 },
  inventory_flash_entries_total: { stored: 5, dead: 0, rejected: 0 },
  inventory_flash_known: { "": 1 },
  inventory_flash_stream_entries: { "": 0 },
  stockade_breaker_state: { "database/closed": 1, "database/open": 0, "redis_lock/closed": 1, "redis_lock/open": 0 },
  stockade_cache_requests_total: { hit_redis: 10, shed: 0 },
  stockade_lock_lost_total: { expired: 0, forced: 0 },
  stockade_outbox_lag_seconds: { "": 0.1 },
  stockade_outbox_refused_rows: { "": 0 },
  stockade_subscription_up: { stock: 1, attack: 1 },
};

const snapshot = (at_s, metrics = {}, more = {}) => ({
  ...READY,
  at_ms: at_s * 1000,
  version: "1",
  metrics: { ...WELL, ...metrics },
  ...more,
});

function history(...snapshots) {
  const made = new History();
  snapshots.forEach((one) => made.add(one));
  return made;
}

/** The sentences of the rules that are broken, with the name of the alert. */
const told = (history) =>
  broken(history).map(({ rule, value }) => `${rule.alert ?? rule.level}: ${rule.says(value, history)}`);

/** What the page says a minute after an instance was well, when so much has changed half a minute ago. */
const after = (metrics, more) =>
  told(history(snapshot(1000), ...[1030, 1060].map((at) => snapshot(at, metrics, more))));

test("each rule sees its own trouble, and no other rule does", () => {
  const checks = (lock_store, cache_store) => ({ ready: { checks: { lock_store, cache_store } } });
  const problem = { type: "schema-outdated", title: "The schema is outdated" };
  const cases = [
    [{}, { ready: null, problem }, /^NotReady: .* not ready: the schema is outdated \(schema-outdated\)\.$/],
    [{}, checks("down", "ok"), /^bad: The Redis of the locks does not answer/],
    [{}, checks("ok", "down"), /^bad: The Redis of the cache does not answer/],
    [
      { stockade_breaker_state: { "database/closed": 0, "database/open": 1 } },
      {},
      /^BreakerOpen: .* given up for now on database\.$/,
    ],
    [
      { stockade_breaker_state: { "redis_lock/closed": 1, "redlock_node/closed": 0, "redlock_node/open": 1 } },
      {},
      /^RedlockNodeDown: A server of the locks does not answer/,
    ],
    [{ http_requests_total: { 200: 195, 503: 5 } }, {}, /^ServerErrors: 5\.00 % of the requests/],
    [
      { http_request_duration_seconds_bucket: { "read/0.25": 110, "read/+Inf": 120 } },
      {},
      /^SlowRequests: 50\.0 % .* longer than 250 ms\.$/,
    ],
    [{ inventory_database_timeouts_total: { "": 5 } }, {}, /^DatabaseConnections: .* in time: 5 in the last/],
    [{ stockade_cache_requests_total: { hit_redis: 10, shed: 5 } }, {}, /^LoadsAtTheirLimit: 5 reads were refused/],
    [{ stockade_subscription_up: { stock: 0, attack: 1 } }, {}, /^SubscriptionDown: .* serves nothing from its memory/],
    [{ stockade_outbox_lag_seconds: { "": 31 } }, {}, /^OutboxLag: .* waited for 31\.0 s/],
    [{ stockade_outbox_refused_rows: { "": 2 } }, {}, /^OutboxRefused: The cache refuses 2 invalidations/],
    [{ stockade_lock_lost_total: { expired: 7, forced: 9 } }, {}, /^LocksLost: Holders lost 7 locks/],
    [{ inventory_fence_rejected_total: { "": 4 } }, {}, /^FenceRefusals: The fence refused 4 writes/],
    [{ inventory_flash_entries_total: { stored: 5, dead: 1, rejected: 0 } }, {}, /^FlashDeadLetters: 1 reservations/],
    [{ inventory_flash_entries_total: { stored: 5, dead: 0, rejected: 6 } }, {}, /^FlashRejected: 6 reservations/],
    [{ inventory_flash_stream_entries: { "": 9 } }, {}, /^FlashStandsStill: 9 acknowledged reservations/],
  ];
  assert.equal(cases.length, RULES.length, "a rule without a case");
  for (const [metrics, more, says] of cases) {
    const all = after(metrics, more);
    assert.equal(all.length, 1, `${says}: ${all.join("; ")}`);
    assert.match(all[0], says);
  }
});

test("an instance that is well breaks no rule: at its first snapshot, with traffic, and without the families", () => {
  assert.deepEqual(told(history(snapshot(1000))), []);
  assert.deepEqual(after({ http_requests_total: { 200: 900, 503: 8 } }), [], "1 % is allowed");
  assert.deepEqual(told(history(snapshot(1000, {}, { metrics: {} }), snapshot(1060, {}, { metrics: {} }))), []);
});

test("reservations that wait for a moment, or behind others that are stored, do not stand still", () => {
  const waiting = { inventory_flash_stream_entries: { "": 9 } };
  assert.deepEqual(told(history(snapshot(1000), snapshot(1059, waiting), snapshot(1060, waiting))), []);
  assert.deepEqual(told(history(snapshot(1000, waiting), snapshot(1030), snapshot(1060, waiting))), [], "those before were stored");
  assert.deepEqual(told(history(snapshot(1059, waiting), snapshot(1060, waiting))), [], "the page was just opened");
  assert.deepEqual(after({ ...waiting, inventory_flash_entries_total: { stored: 6, dead: 0, rejected: 0 } }), []);
  const both = combine(["a:1", "b:1"].map((name) => [name, snapshot(1060, waiting)]));
  assert.equal(both.metrics.inventory_flash_stream_entries[""], 9, "they see the same entries");
});

test("flash sales that no instance knows may stand still", () => {
  const [unknown, known] = [0, 1].map((value) => snapshot(1060, { inventory_flash_known: { "": value } }));
  assert.match(told(history(unknown)).join(), /^FlashStandsStill: The flash sales are not known/);
  const pair = (one, other) => combine([["a:1", one], ["b:1", other]]);
  assert.match(told(history(pair(unknown, unknown))).join(), /^FlashStandsStill: /);
  assert.deepEqual(told(history(pair(unknown, known))), []);
});

test("what has been over for longer than the window of its rule is not told any more", () => {
  const lost = { stockade_lock_lost_total: { expired: 2 }, http_requests_total: { 200: 100, 503: 100 } };
  const at = (seconds) => {
    const since = Array.from({ length: seconds / 60 + 1 }, (_, minute) => snapshot(1060 + 60 * minute, lost));
    return told(history(snapshot(1000), ...since)).map((text) => text.split(":")[0]);
  };
  assert.deepEqual(at(60), ["ServerErrors", "LocksLost"]);
  assert.deepEqual(at(360), ["LocksLost"], "five minutes");
  assert.deepEqual(at(660), [], "ten minutes");
});

test("what the advice tells of stays while instances join, fall silent, come back and restart", () => {
  const made = new History();
  // How many locks each instance has lost by now, by its id.
  const at = (seconds, losses) => {
    const named = Object.entries(losses).map(([id, expired]) => [
      id,
      snapshot(seconds, { process_start_time_seconds: { "": id.charCodeAt() }, stockade_lock_lost_total: { expired } }),
    ]);
    made.add(combine(named), named.map(([id, snapshot]) => ({ id, snapshot })));
    return told(made).map((text) => text.match(/lost (\d+) locks/)?.[1] ?? text);
  };
  assert.deepEqual(at(1000, { a: 5 }), []);
  assert.deepEqual(at(1001, { a: 5, b: 8 }), [], "what another one lost before it joined");
  assert.deepEqual(at(1002, { a: 7, b: 9 }), ["3"]);
  assert.deepEqual(at(1003, { a: 7 }), ["3"], "one is silent");
  assert.deepEqual(at(1004, { a: 7, b: 13, c: 90 }), ["7"], "it has gone on meanwhile, and a third one joined");
  assert.deepEqual(at(1005, { d: 0, b: 13, c: 90 }), ["7"], "the first one was restarted");
});

test("what an instance counted while it was silent is no rate, and one whose clock is behind is counted", () => {
  const made = new History();
  const family = "inventory_http_requests_total";
  // The second instance, whose clock is an hour behind, counts 100 a second.
  const at = (seconds, isHeard = true) => {
    const one = ["a", snapshot(seconds, { [family]: { one: 0 } })];
    const other = ["b", snapshot(seconds - 3600, { [family]: { other: 100 * (seconds - 1000) } })];
    const named = isHeard ? [one, other] : [one];
    made.add(combine(named), named.map(([id, snapshot]) => ({ id, snapshot })));
    return made.rate(family, 5);
  };
  at(1000);
  assert.equal(at(1001), 100);
  for (let seconds = 1002; seconds < 1060; seconds += 1) at(seconds, false);
  assert.deepEqual([1060, 1062, 1064].map((seconds) => at(seconds)), [null, null, null]);
  assert.equal(at(1067), 100);
  assert.equal(made.rise(family, 600), 6700);
});

test("a clock that was set back begins the figures anew, and holds up none", () => {
  const set = history(snapshot(5000), snapshot(1000), snapshot(1060, { http_requests_total: { 200: 700, 503: 0 } }));
  assert.equal(set.rise("http_requests_total", 60), 600);
  assert.equal(set.rate("http_requests_total", 60), 10);
});

test("locks that an attack lost on purpose are told as such, and the fence is not said to have refused all", () => {
  const lost = { stockade_lock_lost_total: { expired: 20 } };
  assert.match(after(lost, { lab: true })[0], /The attack “Stopped holder” loses some on purpose\.$/);
  assert.doesNotMatch(after(lost)[0], /attack|refused/);
});

test("a few errors, slow requests or refusals are told of once they are five", () => {
  const slow = (count) => ({ http_request_duration_seconds_bucket: { "read/0.25": 100, "read/+Inf": 100 + count } });
  assert.deepEqual(after(slow(4)), []);
  assert.match(after(slow(5))[0], /^SlowRequests: 100 %/);
  assert.deepEqual(after({ http_requests_total: { 200: 110, 503: 4 } }), []);
  assert.match(after({ http_requests_total: { 200: 110, 503: 5 } })[0], /^ServerErrors: 33\.3 %/);
  assert.deepEqual(after({ inventory_database_timeouts_total: { "": 4 } }), []);
  assert.deepEqual(after({ stockade_cache_requests_total: { hit_redis: 10, shed: 4 } }), []);
});

test("the open breaker of one instance is told although it is closed in the others", () => {
  const open = { "database/closed": 0, "database/half_open": 0, "database/open": 1 };
  const closed = { "database/closed": 1, "database/half_open": 0, "database/open": 0 };
  for (const states of [
    [open, closed],
    [closed, open],
  ]) {
    const all = combine(states.map((state, at) => [`${at}:1`, snapshot(1000, { stockade_breaker_state: state })]));
    assert.deepEqual({ ...all.metrics.stockade_breaker_state }, open);
    assert.match(told(history(all)).join(), /^BreakerOpen: .* on database\.$/);
  }
});

test("an instance can't change the objects of the page by the names of its figures", () => {
  const metrics = JSON.parse('{ "__proto__": { "body": 1 }, "a": { "__proto__": 2 } }');
  const joined = combine([
    ["a:1", snapshot(1000)],
    ["b:1", snapshot(1000, {}, { metrics })],
  ]);
  assert.equal({}.body, undefined);
  assert.deepEqual(told(history(joined)), []);
});
