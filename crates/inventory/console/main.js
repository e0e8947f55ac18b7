// Puts the page together: each snapshot goes to every part of it.

import { Admin } from "./admin.js";
import { Advice, linkWords } from "./advice.js";
import { look, say } from "./dom.js";
import { listen } from "./feed.js";
import { bytes, span } from "./format.js";
import { Health } from "./health.js";
import { History } from "./history.js";
import { Locks } from "./locks.js";
import { Overview } from "./overview.js";
import { tabs } from "./tabs.js";

const at = (id) => document.getElementById(id);

const history = new History();
const advice = new Advice(at("advice"));
const overview = new Overview(at("tiles"), at("charts"));
const health = new Health(at("health"));
const names = ["form", "token", "forget", "note", "result", "body", "search", "tally", "rows"];
const locks = new Locks(Object.fromEntries(names.map((name) => [name, at(`locks-${name}`)])), new Admin());

function took(snapshot) {
  history.add(snapshot);
  advice.judge(history);
  overview.show(history);
  health.show(history);
  locks.routes(snapshot.admin);
  const running = snapshot.at_ms / 1000 - history.now("process_start_time_seconds");
  const cpu = history.rate("process_cpu_seconds_total", 5);
  const facts = [
    location.host,
    `version ${snapshot.version}`,
    `up ${span(running)}`,
    `${bytes(history.now("process_resident_memory_bytes"))} of memory`,
    ...(cpu === null ? [] : [`${(cpu * 100).toFixed(0)} % of a processor`]),
  ];
  say(at("instance"), facts.join(" · "));
  document.title = `${location.host} · Stockade console`;
}

function linked(link) {
  const [word, style] = linkWords(link);
  look(at("link"), style);
  // A screen reader hears that the link changed, not each second that passes.
  at("link").setAttribute("aria-label", link.state);
  say(at("link"), word);
  look(document.body, link.state === "live" ? "" : "stale");
  advice.link(link);
}

tabs([...document.querySelectorAll("nav a")], (panel) => locks.open(panel === "panel-locks"));
listen(took, linked);
