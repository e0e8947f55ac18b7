// Puts the page together: each snapshot goes to every part of it.

import { Access } from "./access.js";
import { Admin } from "./admin.js";
import { Attacks, WHY as WHY_ATTACKS } from "./attacks.js";
import { Advice, linkWords } from "./advice.js";
import { Cache, WHY as WHY_CACHE } from "./cache.js";
import { look, say } from "./dom.js";
import { Events } from "./events.js";
import { listen } from "./feed.js";
import { Fleet, name } from "./fleet.js";
import { bytes, span } from "./format.js";
import { Health } from "./health.js";
import { History } from "./history.js";
import { Instances } from "./instances.js";
import { Locks, WHY as WHY_LOCKS } from "./locks.js";
import { Overview } from "./overview.js";
import { Stock, WHY as WHY_STOCK } from "./stock.js";
import { tabs } from "./tabs.js";
import { Tiers } from "./tiers.js";
import { takeToken } from "./token.js";

const at = (id) => document.getElementById(id);

let history = new History();
const advice = new Advice(at("advice"), at("advice-news"));
const overview = new Overview(at("tiles"), at("charts"));
const health = new Health(at("health"));
const admin = new Admin();
const parts = (tab, ...names) => Object.fromEntries(names.map((name) => [name, at(`${tab}-${name}`)]));
const access = (name, why) => new Access(at(`${name}-access`), admin, { name, body: at(`${name}-body`), why });
const accesses = {
  locks: access("locks", WHY_LOCKS),
  cache: access("cache", WHY_CACHE),
  stock: access("stock", WHY_STOCK),
  attacks: access("attacks", WHY_ATTACKS),
};
const tiers = new Tiers(at("cache-tiers"), at("cache-sum"));

/** What asks only while its tab is open, with the id of the tab's panel. */
const panels = [
  ["panel-locks", new Locks(parts("locks", "result", "search", "tally", "rows"), admin, accesses.locks)],
  [
    "panel-locks",
    new Events({ ...parts("events", "note", "rows"), search: at("locks-search") }, admin, accesses.locks),
  ],
  ["panel-cache", new Cache(parts("cache", "result", "facts", "form-key", "key", "found"), admin, accesses.cache)],
  [
    "panel-stock",
    new Stock(
      parts("stock", "check", "conservation", "form", "search", "tally", "rows", "next", "ledger"),
      admin,
      accesses.stock,
    ),
  ],
  ["panel-attacks", new Attacks(parts("attacks", "stop", "result", "list"), admin, accesses.attacks)],
];

const instances = new Instances(at("fleet-rows"));
const fleet = new Fleet({ choice: at("fleet-choice"), chooser: at("fleet-chooser") }, () => {
  // Figures of other instances say nothing of these.
  history = new History();
  [overview, health, tiers].forEach((one) => one.clear());
  say(at("instance"), "");
  show();
});
/** What all instances said last. */
let newest;

function took(page) {
  newest = page.instances;
  instances.show(page.instances);
  advice.fleet(page.instances);
  const [here] = page.instances;
  Object.values(accesses).forEach((one) => one.routes(here.snapshot.admin));
  at("attacks-tab").hidden = !here.snapshot.lab;
  document.title = `${location.host} · Stockade console`;
  show();
}

function show() {
  const { snapshot, live } = fleet.take(newest);
  document.body.classList.toggle("away", snapshot === null);
  if (snapshot === null) return advice.silent();
  history.add(snapshot, live);
  advice.judge(history);
  overview.show(history);
  health.show(history);
  tiers.show(history);
  say(at("instance"), facts(snapshot, live).join(" · "));
}

function facts(snapshot, live) {
  const running = snapshot.at_ms / 1000 - history.now("process_start_time_seconds");
  const cpu = history.rate("process_cpu_seconds_total", 5);
  return [
    ...(live.length > 1 ? [`${live.length} instances`] : [name(live[0])]),
    `version ${snapshot.version}`,
    ...(live.length > 1 ? [] : [`up ${span(running)}`]),
    `${bytes(history.now("process_resident_memory_bytes"))} of memory`,
    ...(cpu === null ? [] : [`${(cpu * 100).toFixed(0)} % of a processor`]),
  ];
}

function linked(link) {
  const [word, style] = linkWords(link);
  look(at("link"), style);
  say(at("link"), word);
  document.body.classList.toggle("stale", link.state !== "live");
  advice.link(link);
}

// Before the tabs, which know the address without a token.
takeToken((token) => admin.use(token));
tabs([...document.querySelectorAll("nav a")], (shown) => panels.forEach(([panel, tab]) => tab.open(panel === shown)));
listen(took, linked);
