// The console in a browser, beside two instances. Each test says what a person would do and see.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { holdRow, Instance, migrate, rows, TOKEN, until } from "./instance.mjs";
import { launch, Page } from "./page.mjs";

// A request waits for a lock, and keeps it, for as long as a test looks at it.
const PATIENT = {
  LOCK_WAIT: "36s",
  LOCK_LEASE: "80s",
  STATEMENT_TIMEOUT: "38s",
  REQUEST_TIMEOUT: "80s",
  SHUTDOWN_GRACE: "90s",
};
const HOSTILE = `<img src=x onerror=alert(1)>`;
const WIDE = "W".repeat(64);
const WINDOWS = [
  ["dark", 390],
  ["light", 375],
  ["dark", 1280],
  ["light", 1280],
  ["light", 1920],
];
const TABS = ["overview", "locks", "cache", "stock", "attacks"];

let browser, here, other;

before(async () => {
  await migrate();
  // One after the other: `after` ends what was started before a failure.
  browser = await launch();
  here = await Instance.start({ ...PATIENT, LAB: "on" });
  other = await Instance.start(PATIENT);
  await Promise.all([here.put("85123A", 100), here.put(HOSTILE, 10), here.put(WIDE, 10)]);
});

after(() => Promise.all([browser?.close(), here?.end(), other?.end()]));

/** What the page said, but for answers with a status that the test has provoked. */
const unexpected = (page, ...statuses) =>
  page.said.filter((line) => !statuses.some((status) => line.includes(`status of ${status}`)));

const isDelete = (request) => request.method() === "DELETE";

/** The moment that a text names, in milliseconds since 1970. */
function momentIn(text) {
  const [, day, month, year, time] = text.match(/(\d\d)\/(\d\d)\/(\d{4}), (\d\d:\d\d:\d\d)/) ?? [];
  return Date.parse(`${year}-${month}-${day}T${time}`);
}

/** A promise, and what fulfils it. */
function gate() {
  let open;
  return [new Promise((done) => (open = done)), open];
}

/** The answer to a request that had no effect. */
const REFUSAL = {
  status: 503,
  contentType: "application/problem+json",
  body: `{"title":"Nobody knows","detail":"nothing was applied","applied":false}`,
};

/** Waits until a tab has asked for its list so many times more. */
async function polls(page, list, many) {
  for (let more = many; more > 0; more -= 1) {
    await page.tab.waitForResponse((answer) => new URL(answer.url()).pathname === list && answer.ok());
  }
}

/** Refuses what is `wanted` while `act` asks for it, and returns after the tab has asked for its list twice more. */
async function refusedOnce(page, list, act, wanted = isDelete) {
  const route = (one) => (wanted(one.request()) ? one.fulfill(REFUSAL) : one.fallback());
  await page.tab.route("**/admin/**", route);
  const refused = page.tab.waitForResponse((answer) => wanted(answer.request()));
  await act();
  await refused;
  await page.tab.unroute("**/admin/**", route);
  await polls(page, list, 2);
}

test("every tab fits its window, dark and light, and the page writes nothing to its log", async () => {
  const release = await holdRow(WIDE);
  const asked = [1, 2].map((n) => here.adjust(WIDE, -1, `${n}`));
  for (const [colorScheme, width] of WINDOWS) {
    const page = await Page.open(browser, `${here.ops}#overview?token=${TOKEN}`, { width, colorScheme });
    await page.reads("#link", /live/);
    // A program may give its locks any tag.
    await page.tab.route("**/admin/locks", async (route) => {
      const list = await (await route.fetch()).json();
      list.locks.forEach((lock) => lock.holders.forEach((holder) => (holder.tag = WIDE)));
      await route.fulfill({ json: list });
    });
    for (const tab of TABS) {
      await page.tab.click(`nav a[href="#${tab}"]`);
      await page.tab.locator(`#panel-${tab}`).waitFor();
      if (tab === "locks") {
        await page.reads("#locks-rows", WIDE);
        assert.deepEqual(await page.heads("#locks-rows td"), width < 600 ? ["held by: ", "queue: ", ""] : ["", "", ""]);
      }
      assert.equal(await page.overflow(), 0, `${tab} at ${width} px, ${colorScheme}`);
      await page.shot(`${tab}-${colorScheme}-${width}`);
    }
    assert.deepEqual(page.said, []);
    await page.close();
  }
  await release();
  await Promise.all(asked);
});

test("nothing is asked for elsewhere, and the page is shown with what it keeps to itself", async (t) => {
  const page = await Page.open(browser, here.ops);
  await page.reads("#link", /live/);
  const elsewhere = page.asked.filter((url) => new URL(url).origin !== new URL(here.ops).origin);
  assert.deepEqual(elsewhere, []);
  const kept = await page.tab.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length);
  assert.equal(kept, 0);
  const loaded = await page.tab.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd);
  t.diagnostic(`loaded in ${loaded.toFixed(0)} ms`);
  await page.close();
});

test("by keyboard the head is skipped, and the tab stays", async () => {
  const page = await Page.open(browser, `${here.ops}#locks`);
  await page.tab.locator("#panel-locks").waitFor();
  await page.tab.keyboard.press("Tab");
  await page.tab.keyboard.press("Enter");
  await page.tab.locator("#main:focus").waitFor();
  assert.equal(new URL(page.tab.url()).hash, "#main");
  assert.ok(await page.tab.locator("#panel-locks").isVisible());
  await page.close();
});

test("a screen reader hears what is wrong once, and each figure of it is shown", async () => {
  const page = await Page.open(browser, here.ops);
  const { heard, shown, isKept } = await page.tab.evaluate(async () => {
    const [{ Advice }, { History }] = await Promise.all([import("/console/advice.js"), import("/console/history.js")]);
    const [list, news, history] = [document.createElement("ul"), document.createElement("p"), new History()];
    const [advice, heard, shown, items] = [new Advice(list, news), [], [], new Set()];
    const ready = { checks: { lock_store: "ok", cache_store: "ok" } };
    for (const lag of [31, 32, 33, 0]) {
      history.add({ at_ms: 1000, ready, metrics: { stockade_outbox_lag_seconds: { "": lag } } });
      advice.judge(history);
      const [said] = news.childNodes;
      if (heard.at(-1) !== said) heard.push(said);
      shown.push(list.textContent.match(/waited for (\S+ s)/)?.[1]);
      if (lag) items.add(list.firstChild);
    }
    return { heard: heard.map((text) => text.data), shown, isKept: items.size === 1 };
  });
  assert.deepEqual(shown, ["31.0 s", "32.0 s", "33.0 s", undefined]);
  assert.ok(isKept, "the sentence was made anew for a figure");
  assert.equal(heard.length, 2, heard.join());
  assert.match(heard[0], /has waited for 31\.0 s/);
  assert.match(heard[1], /^Nothing is wrong/);
  assert.equal(await page.tab.locator("#advice[aria-live]").count(), 0);
  assert.notEqual(await page.text("#advice-news[role=status]"), "");
  await page.close();
});

test("the log keeps every loss and forced release while grants pass, and dates each event", async () => {
  const page = await Page.open(browser, here.ops);
  const kept = await page.tab.evaluate(async () => {
    const { Events } = await import("/console/events.js");
    const [rows, note, search] = ["tbody", "p", "input"].map((tag) => document.createElement(tag));
    document.body.append(rows);
    const event = (id, what) => ({ id, what, at_ms: 1000 * id, resource: "stock:1", waited_ms: 1 });
    const grants = (from) => Array.from({ length: 500 }, (_, more) => event(from + more, "granted"));
    let log = [event(1, "lost"), event(2, "forced"), ...grants(3)];
    const ask = async () => ({ instances: [{ id: "a", log: { events: log, newest: 1, since_ms: 0, left_out: 0 } }] });
    const events = new Events({ rows, note, search }, { hasToken: true, watch() {}, ask }, { refused: console.error });
    for (const later of [grants(503), []]) {
      events.open(true);
      while (!document.getElementById(`event-a-${log.at(-1).id}`)) await new Promise((done) => setTimeout(done, 10));
      log = later;
    }
    events.open(false);
    return [...rows.children].map((row) => [row.dataset.what, row.cells[0].textContent]);
  });
  assert.deepEqual(kept.slice(-2).map(([what]) => what), ["forced", "lost"]);
  assert.equal(kept.length, 302);
  assert.equal(momentIn(kept.at(-1)[1]), 1000);
  await page.close();
});

test("an axis of counts names whole numbers, and Redis is not quick that answers nothing", async () => {
  const page = await Page.open(browser, here.ops);
  const { written, said } = await page.tab.evaluate(async () => {
    const [{ Chart }, { count }] = await Promise.all([import("/console/chart.js"), import("/console/format.js")]);
    const [{ Health }, { History }] = await Promise.all([import("/console/health.js"), import("/console/history.js")]);
    const [written, { fillText }] = [[], CanvasRenderingContext2D.prototype];
    CanvasRenderingContext2D.prototype.fillText = (text) => written.push(text);
    const chart = new Chart(document.body, { title: "Locks", unit: "", lines: ["held"], format: count });
    for (const [at, held] of [[1, 0], [2, 1]]) chart.add(at, [held]);
    while (!written.includes("1")) await new Promise(requestAnimationFrame);
    CanvasRenderingContext2D.prototype.fillText = fillText;
    const [parent, history] = [document.createElement("div"), new History()];
    const [health, said] = [new Health(parent), []];
    for (const [at, answered] of [[1, 5], [2, 5], [3, 9]]) {
      const metrics = { stockade_redis_command_seconds_bucket: { 0.01: answered, "+Inf": answered } };
      history.add({ at_ms: 1000 * at, ready: { checks: {} }, metrics });
      health.show(history);
      const row = [...parent.querySelectorAll("tr")].find((one) => one.textContent.startsWith("Commands of Redis"));
      said.push(`${row.cells[1].className}: ${row.cells[1].textContent}`);
    }
    return { written, said };
  });
  const axis = written.filter((text) => /^[\d.]+$/.test(text));
  assert.deepEqual(axis.slice(axis.lastIndexOf("0")), ["0", "1"]);
  assert.deepEqual(said, ["word good: ", "word warn: none answered", "word good: quick"]);
  await page.close();
});

test("figures move with the traffic", async () => {
  const page = await Page.open(browser, here.ops);
  await page.reads("#link", /live/);
  const tile = page.tab.locator("#tiles .tile").filter({ hasText: /^Requests/ });
  const aSecond = async () => Number.parseFloat(await tile.locator("dd").first().textContent());
  await until("the rate of requests is known, and low", async () => (await aSecond()) <= 5);
  // The traffic goes on until it is seen.
  await until("the rate follows the traffic", async () => {
    await Promise.all(Array.from({ length: 10 }, async () => (await here.get("85123A")).text()));
    return (await aSecond()) > 5;
  });
  await page.close();
});

test("a lock that another process holds is shown with its queue, found by search, and forced after a question", async () => {
  const release = await holdRow(HOSTILE);
  const asked = [1, 2, 3].map((n) => other.adjust(HOSTILE, -1, `<b>${n}`));
  const page = await Page.open(browser, `${here.ops}#locks`);

  await page.reads("#locks-note", /need the admin token .* The link that `make demo` prints brings it\.$/);
  // One of the two answers comes late: it says nothing of the token that was given meanwhile.
  const [isLate, answerLate] = gate();
  await page.tab.route("**/admin/locks/events*", async (route) => {
    if (route.request().headers().authorization.endsWith("wrong")) await isLate;
    await route.continue();
  });
  await page.use("locks", "wrong");
  await page.reads("#locks-note", /not the one of this instance/);
  await page.tab.locator("#locks-token:focus").waitFor();
  await page.use("locks", TOKEN);
  const row = await page.reads("#locks-rows tr", /waiting: 2/);
  assert.ok(row.includes(HOSTILE), row);
  await page.tab.locator("#locks-title:focus").waitFor();
  const selected = () => page.tab.evaluate(() => getSelection().toString());
  const held = page.tab.locator("#locks-rows tr").filter({ hasText: HOSTILE }).locator("li > *").first();
  await held.evaluate((holder) => getSelection().selectAllChildren(holder));
  assert.match(await selected(), /token \d+/);
  const late = page.tab.waitForResponse((answer) => answer.status() === 401);
  answerLate();
  await late;
  await polls(page, "/admin/locks", 2);
  assert.match(await selected(), /token \d+/);
  assert.ok(await page.tab.locator("#locks-body").isVisible(), "the right token is forgotten");

  // A list that has come to its end.
  const many = Array.from({ length: 1000 }, (_, number) => `stock:${1000 + number}`);
  const isList = ({ pathname }) => pathname === "/admin/locks";
  await page.tab.route(isList, (route) => route.fulfill({ json: { items: many, locks: [] } }));
  await page.tab.fill("#locks-search", `stock:${HOSTILE}`);
  await page.reads("#locks-tally", /waited for: 1,000 or more\. Shown: 1\./);
  await page.reads("#locks-rows tr", /waiting: 2/);
  await page.tab.unroute(isList);
  await page.tab.route(isList, (route) => route.fulfill(REFUSAL));
  await page.reads("#locks-note", /^Answered \(503\): Nobody knows\.$/);
  assert.equal(await page.tab.locator("#locks-body").evaluate((body) => getComputedStyle(body).opacity), "0.7");
  await page.tab.unroute(isList);
  await page.tab.locator("#locks-body:not(.stale)").waitFor();

  await page.tab.fill("#locks-search", "nothing-like-it");
  await page.reads("#locks-tally", /Shown: 0\./);
  await page.tab.fill("#locks-search", "<img");
  await page.reads("#locks-tally", /Shown: 1\./);
  await page.shot("locks-held");

  // By keyboard alone: the button keeps the focus while the list is drawn anew, and Escape calls the question off.
  await page.tab.locator("#locks-rows button").focus();
  await page.tab.keyboard.press("Enter");
  await page.tab.locator("dialog").waitFor();
  await page.tab.keyboard.press("Escape");
  await page.tab.locator("dialog").waitFor({ state: "detached" });
  assert.equal(await page.text("#locks-result"), "");

  await refusedOnce(page, "/admin/locks", async () => {
    await page.tab.click("#locks-rows button");
    await page.tab.click("dialog .danger");
  });
  await page.reads("#locks-result", /^Refused \(503\): Nobody knows: nothing was applied\.$/);

  // Only what was refused is called so.
  const isLock = ({ pathname }) => pathname === `/admin/locks/${encodeURIComponent(`stock:${HOSTILE}`)}`;
  const press = async () => {
    await page.tab.click("#locks-rows button");
    await page.reads("dialog li", /write · token \d+$/);
    await page.tab.click("dialog .danger");
  };
  const answerDelete = (answer) => (route) => (isDelete(route.request()) ? answer(route) : route.fallback());
  const unfenced = { ...REFUSAL, body: `{"title":"The lock was taken, its fence not raised","applied":true}` };
  await page.tab.route(isLock, answerDelete((route) => route.fulfill(unfenced)));
  await press();
  await page.reads("#locks-result", /^Answered \(503\): The lock was taken, its fence not raised\.$/);
  await page.tab.unroute(isLock);

  // Nothing is done to a holder whom the question did not name.
  await page.tab.route(isLock, async (route) => {
    assert.ok(!isDelete(route.request()), "a holder that nobody saw was forced");
    const lock = await (await route.fetch()).json();
    lock.holders[0].token += 1;
    await route.fulfill({ json: lock });
  });
  await press();
  await page.reads("#locks-result", /changed, so nothing was done: look again\.$/);
  await page.tab.unroute(isLock);

  const [isSeen, goOn] = gate();
  await page.tab.route(isLock, answerDelete((route) => isSeen.then(() => route.continue())));
  const [forced] = await Promise.all([page.tab.waitForRequest(isDelete), press()]);
  await page.reads("#locks-result", /^Forcing .* …$/);
  await page.tab.click("#locks-rows button");
  assert.equal(await page.tab.locator("dialog").count(), 0, "a second press asks again");
  goOn();
  assert.equal(new URL(forced.url()).pathname, `/admin/locks/${encodeURIComponent(`stock:${HOSTILE}`)}`);
  // What the other instance saw comes by Redis. Its holder is in a transaction, which the fence waits for: a holder that
  // had ended before it heard of the force would have lost nothing.
  const ofOther = page.tab.locator("#events-rows tr").filter({ hasText: new URL(other.ops).host });
  const lost = ofOther.filter({ hasText: "LOST" }).first();
  assert.ok(Math.abs(Date.now() - momentIn(await lost.textContent())) < 60_000);
  await release();
  await page.reads("#locks-result", /was forced\. Holders that lost it: 1\./);
  const answers = await Promise.all(asked);
  for (const answer of answers) assert.ok([200, 409, 503].includes(answer.status), await answer.text());

  assert.equal(await page.tab.locator("main img").count(), 0, "a name became an element");
  assert.deepEqual(unexpected(page, 401, 503), []);
  await page.close();
});

test("the overview after a minute of traffic, for the picture of it", { skip: !process.env.SCREENSHOTS }, async () => {
  const page = await Page.open(browser, here.ops, { height: 860 });
  const skus = Array.from({ length: 40 }, (_, number) => `851${number}`);
  await Promise.all(skus.map((sku) => here.put(sku, 1000)));
  const end = Date.now() + 60_000;
  const any = () => skus[Math.floor(Math.random() ** 2 * skus.length)];
  const visitors = Array.from({ length: 6 }, async (_, visitor) => {
    while (Date.now() < end) {
      const instance = visitor % 2 ? here : other;
      await (await (Math.random() < 0.2 ? instance.adjust(any(), -1, "sold") : instance.get(any()))).text();
      await new Promise((done) => setTimeout(done, 40 * Math.random()));
    }
  });
  await Promise.all(visitors);
  await page.shot("console");
  await page.close();
});

test("stock is searched, its ledger drawn, and all of it checked", async () => {
  await here.adjust("85123A", -40, "sold");
  const page = await Page.open(browser, `${here.ops}#stock`, { clock: Date.now() + 3 * 3600_000 });
  await page.use("stock", TOKEN);
  await page.tab.fill("#stock-search", "<img");
  await page.reads("#stock-tally", /^SKUs shown: 1\./);
  await page.reads("#stock-rows tr", HOSTILE);
  await page.tab.fill("#stock-search", "851");
  const isNow = (text) => Math.abs(Date.now() - momentIn(text)) < 60_000;
  const changed = await page.reads("#stock-rows tr", /60 units/);
  assert.ok(isNow(changed), changed);
  await page.tab.click('#stock-rows [data-sku="85123A"]');
  await page.reads("#stock-ledger", /sold/);
  await page.tab.click("#stock-check");
  // By the clock of the instance.
  const checked = await page.reads("#stock-conservation", /^Stock is conserved/);
  assert.ok(isNow(checked), checked);
  await page.tab.fill("#stock-search", "W");
  await page.reads("#stock-rows tr", WIDE);
  assert.equal(await page.tab.locator("main img").count(), 0, "a name became an element");
  assert.deepEqual(page.said, []);
  await page.close();
});

test("a key of the cache is looked up and voided", async () => {
  await here.get("85123A");
  const page = await Page.open(browser, `${here.ops}#cache`);
  await page.use("cache", TOKEN);
  await page.tab.fill("#cache-key", "85123A");
  const lookUp = () => page.tab.press("#cache-key", "Enter");
  await refusedOnce(page, "/admin/cache", lookUp, (request) => request.url().endsWith("/admin/cache/85123A"));
  await page.reads("#cache-result", /^Answered \(503\): Nobody knows\.$/);
  await lookUp();
  await page.reads("#cache-found h3", /85123A, at \d\d\/\d\d\/\d{4}, /);
  assert.equal(await page.text("#cache-result"), "");
  const invalidate = async () => {
    await page.tab.locator("#cache-found button").first().click();
    await page.tab.click("dialog .danger");
  };
  await refusedOnce(page, "/admin/cache", invalidate);
  await page.reads("#cache-result", /^Refused \(503\): Nobody knows: nothing was applied\.$/);
  await invalidate();
  await page.reads("#cache-result", /85123A/);
  assert.deepEqual(unexpected(page, 503), []);
  await page.close();
});

test("both instances are on the page, added up or one of them", async () => {
  const page = await Page.open(browser, here.ops);
  await until("both are listed", async () => (await page.tab.locator("#fleet-rows tr").count()) === 2);
  await page.reads("#instance", /^2 instances/);
  const address = new URL(other.ops).host;
  const option = page.tab.locator("#fleet-chooser option").filter({ hasText: address });
  await page.tab.selectOption("#fleet-chooser", await option.getAttribute("value"));
  await page.reads("#instance", address);
  assert.deepEqual(page.said, []);
  await page.close();
});

/** Every attack, and what its verdict has to say. */
const VERDICTS = {
  breakdown: /^With the defences \d+ loads? answered [\d,]+ callers, .* Without them Postgres was asked [\d,]+ times/,
  penetration: /^With the defences Postgres was asked \d+ times .* Without them it was asked 10,000 times\.$/,
  avalanche: /^With the defences at most \d+ loads wanted Postgres .* Without them \d+ did/,
  "slow-postgres": /^With the defences [\d,]+ reads were answered, .* Without them [\d,]+ were/,
  "last-unit": /^With the defences 100 of 100 units were sold, and the stock knows of all 100 sales\./,
  "stopped-holder": /^With the fence 10 stopped holders .* of all 10 sales\. .* not know of 10 of 20 sales\.$/,
  "killed-holder": /^The holder of a lock was killed\. With the defences 20 of 20 .* Without them 0 of 20 did/,
  "frozen-redis": /^Redis stood still for 5 s\./,
  "restarted-redis": /^Redis was killed and came back empty\. With the defences \d+ of 2,000 reads failed/,
  "flushed-redis": /^Redis lost all its keys\. With the defences \d+ loads filled the cache again/,
};

test("each attack ends with its verdict, and its numbers are those of Postgres", async (t) => {
  await rows("create extension if not exists pg_stat_statements");
  // As the demonstration prints it: the link brings the token, which does not stay in the address.
  const page = await Page.open(browser, `${here.ops}#attacks?token=${TOKEN}`, { height: 1000 });
  // None takes longer than 30 s.
  page.tab.setDefaultTimeout(60_000);
  assert.equal(new URL(page.tab.url()).hash, "#attacks");
  const figure = async (attack, side, name) => {
    const cell = `[data-result="${attack}"] [data-side="${side}"][data-figure="${name}"]`;
    return Number((await page.text(cell)).replaceAll(",", ""));
  };
  const statements = async () => {
    const asked = `select coalesce(sum(calls), 0) from pg_stat_statements where query like 'select about from goods, %'`;
    return Number((await rows(asked))[0]);
  };

  // Somebody else has this page open, and presses a button that this page does not know to be useless yet.
  const visitor = await Page.open(browser, `${here.ops}#attacks?token=${TOKEN}`, { width: 390, height: 844 });
  await visitor.tab.locator('[data-attack="flushed-redis"][aria-disabled="false"]').waitFor();
  await page.tab.locator('[data-attack="avalanche"]').focus();
  await page.tab.keyboard.press("Enter");
  await page.tab.locator("#attacks-stop:enabled").waitFor();
  await page.tab.locator('[data-attack="avalanche"][aria-disabled="true"]:focus').waitFor();
  await visitor.tab.locator('[data-attack="flushed-redis"]').evaluate((button) => {
    button.ariaDisabled = "false";
    button.click();
  });
  await visitor.reads('[data-result="flushed-redis"]', /Refused \(409\): /);
  await page.tab.locator('[data-attack="flushed-redis"]').scrollIntoViewIfNeeded();
  const { y } = await page.tab.locator("#attacks-stop").boundingBox();
  assert.ok(y >= 0 && y < 1000, "far below, the attack can still be stopped");
  const stop = () => page.tab.click("#attacks-stop:enabled");
  await refusedOnce(page, "/admin/attacks", stop);
  await page.reads("#attacks-result", /^Refused \(503\): Nobody knows: nothing was applied\.$/);
  await stop();
  await page.reads('[data-verdict="avalanche"]', /was stopped/);
  assert.equal(await page.text("#attacks-result"), "");
  await visitor.tab.locator('[data-attack="flushed-redis"][aria-disabled="false"]').waitFor();
  assert.doesNotMatch(await visitor.text('[data-result="flushed-redis"]'), /Refused/);
  const buttons = page.tab.locator("[data-attack]");
  assert.deepEqual(await buttons.evaluateAll((all) => all.map((one) => one.dataset.attack)), Object.keys(VERDICTS));
  for (const [attack, verdict] of Object.entries(VERDICTS)) {
    const before = await statements();
    await page.tab.click(`[data-attack="${attack}"]`);
    t.diagnostic(await page.reads(`[data-verdict="${attack}"]`, verdict));
    if (attack === "penetration") {
      const sides = [await figure(attack, "on", "Statements"), await figure(attack, "off", "Statements")];
      assert.equal((await statements()) - before, sides[0] + sides[1]);
      await page.shot("attack", `[data-result="${attack}"]`);
    }
  }
  const [ledger] = await rows(`select count(*) from "lab-no-lock".sold`);
  assert.equal(await figure("last-unit", "off", "Sold"), Number(ledger));
  await until("all schemes of the lab sold", async () => (await page.tab.locator("[data-scheme]").count()) === 14);
  // On a phone no head of a table names the columns.
  await visitor.tab.locator('[data-result="last-unit"] [data-side="off"]').first().scrollIntoViewIfNeeded();
  const sides = await visitor.heads('[data-result="last-unit"] [data-figure="Sold"]');
  assert.deepEqual(sides, ["With the defences: ", "Without: "]);
  assert.equal(await visitor.overflow(), 0);
  await visitor.shot("attack-phone", '[data-result="last-unit"]');
  await visitor.close();
  assert.equal(await page.overflow(), 0);
  assert.deepEqual(unexpected(page, 503), []);
  await page.close();
});

test("a page that nobody sees listens to nothing, and begins again when it is seen", async () => {
  const page = await Page.open(browser, here.ops);
  await page.reads("#link", /live/);
  const isStream = (request) => request.url().endsWith("/console/fleet");
  const turn = (isHidden) =>
    page.tab.evaluate((isHidden) => {
      Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, isHidden);
  await Promise.all([page.tab.waitForEvent("requestfailed", isStream), turn(true)]);
  await Promise.all([page.tab.waitForEvent("request", isStream), turn(false)]);
  await page.reads("#link", /live/);
  assert.deepEqual(page.said, []);
  await page.close();
});

test("an instance that stops, goes on, and is killed: the page says each, and shows as old what is old", async () => {
  const page = await Page.open(browser, other.ops);
  const beside = await Page.open(browser, here.ops);
  const choose = async (what) => {
    const option = beside.tab.locator("#fleet-chooser option").filter({ hasText: what });
    await option.waitFor({ state: "attached" });
    await beside.tab.selectOption("#fleet-chooser", await option.getAttribute("value"));
  };
  await page.reads("#link", /live/);
  assert.equal(await page.tab.locator("#link:is([role], [aria-label])").count(), 0, "the advice says it");
  await choose(new URL(other.ops).host);
  await beside.reads("#advice", /^Nothing is wrong/);
  await beside.reads("#tiles .tile", /Outbox lag\d/);

  other.signal("SIGSTOP");
  await page.reads("#link", /^late by/);
  await beside.reads("#advice", /The chosen instance sends no figures/);
  await beside.reads("#tiles .tile", /Outbox lag\d/);
  await choose(/^all/);
  await beside.reads("#instance", new URL(here.ops).host);
  await choose(new URL(other.ops).host);
  await beside.reads("#tiles .tile", /Outbox lag––/);
  assert.equal(await beside.tab.locator(".tile dd, .legend b").filter({ hasText: /\d/ }).count(), 0);
  assert.equal(await beside.text("#instance"), "");
  assert.doesNotMatch(await beside.text("#health"), /\d /);
  assert.equal(await beside.text("#cache-sum"), "");
  assert.doesNotMatch(await beside.text("#advice"), /Nothing is wrong/);
  assert.deepEqual(beside.said, []);
  await beside.close();

  // A path that says nothing for 15 s may be dead.
  await page.reads("#link", /^no answer for \d\d s/);
  other.signal("SIGCONT");
  await page.reads("#link", /live/);
  await other.end();
  await page.reads("#link", /^no answer for/);
  const old = ["tiles", "charts", "health", "cache-tiers", "fleet-rows", "locks-body", "cache-body", "stock-body"];
  for (const id of old) {
    const opacity = await page.tab.locator(`#${id}`).evaluate((one) => getComputedStyle(one).opacity);
    assert.equal(opacity, "0.7", id);
  }
  await page.shot("gone");
  await page.close();
});
