// The console in a browser, beside two instances. Each test says what a person would do and see.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { holdRow, Instance, migrate, TOKEN, until } from "./instance.mjs";
import { launch, Page } from "./page.mjs";

// A request waits for a lock, and keeps it, for as long as a test looks at it.
const PATIENT = {
  LOCK_WAIT: "20s",
  LOCK_LEASE: "60s",
  STATEMENT_TIMEOUT: "38s",
  REQUEST_TIMEOUT: "59s",
  SHUTDOWN_GRACE: "70s",
};
const HOSTILE = `<img src=x onerror=alert(1)>`;
const WINDOWS = [
  ["dark", 390],
  ["light", 390],
  ["dark", 1280],
  ["light", 1280],
  ["light", 1920],
];
const TABS = ["overview", "locks"];

let browser, here, other;

before(async () => {
  await migrate();
  [browser, here, other] = await Promise.all([launch(), Instance.start(PATIENT), Instance.start(PATIENT)]);
  await Promise.all([here.put("85123A", 100), here.put(HOSTILE, 10)]);
});

after(() => Promise.all([browser?.close(), here?.end(), other?.end()]));

test("every tab fits its window, dark and light, and the page writes nothing to its log", async () => {
  for (const [colorScheme, width] of WINDOWS) {
    const page = await Page.open(browser, here.ops, { width, colorScheme });
    await page.reads("#link", /live/);
    for (const tab of TABS) {
      await page.tab.click(`nav a[href="#${tab}"]`);
      await page.tab.locator(`#panel-${tab}`).waitFor();
      assert.equal(await page.overflow(), 0, `${tab} at ${width} px, ${colorScheme}`);
      await page.shot(`${tab}-${colorScheme}-${width}`);
    }
    assert.deepEqual(page.said, []);
    await page.close();
  }
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

test("figures move with the traffic", async () => {
  const page = await Page.open(browser, here.ops);
  await page.reads("#link", /live/);
  const shown = () => page.tab.locator("#tiles").textContent();
  const still = await shown();
  await Promise.all(Array.from({ length: 50 }, () => here.get("85123A")));
  await until("the tiles change", async () => (await shown()) !== still);
  await page.close();
});

test("a lock that another process holds is shown with its queue, found by search, and forced after a question", async () => {
  const release = await holdRow(HOSTILE);
  const asked = [1, 2, 3].map((n) => other.adjust(HOSTILE, -1, `<b>${n}`));
  const page = await Page.open(browser, `${here.ops}#locks`);

  await page.reads("#locks-note", /need the admin token/);
  await page.tab.fill("#locks-token", "wrong");
  await page.tab.keyboard.press("Enter");
  await page.reads("#locks-note", /not the one of this instance/);
  await page.tab.fill("#locks-token", TOKEN);
  await page.tab.keyboard.press("Enter");
  const row = await page.reads("#locks-rows tr", /waiting: 2/);
  assert.ok(row.includes(HOSTILE), row);

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

  await page.tab.click("#locks-rows button");
  const [forced] = await Promise.all([
    page.tab.waitForRequest((request) => request.method() === "DELETE"),
    page.tab.click("dialog .danger"),
  ]);
  assert.equal(new URL(forced.url()).pathname, `/admin/locks/${encodeURIComponent(`stock:${HOSTILE}`)}`);
  // The holder is in its transaction, which the fence waits for.
  await release();
  await page.reads("#locks-result", /was forced\. Holders that lost it: 1\./);
  const answers = await Promise.all(asked);
  for (const answer of answers) assert.ok([200, 409, 503].includes(answer.status), await answer.text());

  assert.equal(await page.tab.locator("main img").count(), 0, "a name became an element");
  assert.deepEqual(page.said.filter((line) => !/status of 401/.test(line)), []);
  await page.close();
});

test("an instance that stops, goes on, and is killed: the page says each", async () => {
  const page = await Page.open(browser, other.ops);
  await page.reads("#link", /live/);
  other.signal("SIGSTOP");
  await page.reads("#link", /^late by/);
  other.signal("SIGCONT");
  await page.reads("#link", /live/);
  await other.end();
  await page.reads("#link", /^no answer for/);
  await page.shot("gone");
  await page.close();
});
