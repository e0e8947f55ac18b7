// A page of the console in Chromium, and what it said.

import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

// The sandbox of Chromium does not start as root, which CI is.
const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];

/** Where screenshots go; none are made without it. */
const SCREENSHOTS = process.env.SCREENSHOTS;

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM, args: ARGS });

export class Page {
  /** What the page wrote to its console, and errors that nothing caught. An instance that is gone is no fault of it. */
  said = [];
  /** The addresses asked for, and the bytes that came, by the header of each answer or else its body. */
  asked = [];

  static async open(browser, url, { width = 1280, height = 800, colorScheme = "dark", clock } = {}) {
    const page = new Page();
    page.tab = await browser.newPage({ viewport: { width, height }, colorScheme });
    page.tab.setDefaultTimeout(30_000);
    if (clock) await page.tab.clock.setSystemTime(clock);
    page.tab.on("pageerror", (error) => page.said.push(`error: ${error}`));
    page.tab.on("console", (message) => page.said.push(`${message.type()}: ${message.text()}`));
    page.tab.on("dialog", (dialog) => {
      page.said.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.tab.on("request", (request) => page.asked.push(request.url()));
    await page.tab.goto(url, { waitUntil: "load" });
    return page;
  }

  text(selector) {
    return this.tab.locator(selector).first().textContent();
  }

  /** Waits until an element has a text that matches; returns the text. */
  async reads(selector, pattern) {
    const matching = this.tab.locator(selector).filter({ hasText: pattern }).first();
    await matching.waitFor();
    return matching.textContent();
  }

  /** Gives the admin token in a tab, by keyboard. */
  async use(tab, token) {
    await this.tab.fill(`#${tab}-token`, token);
    await this.tab.keyboard.press("Enter");
  }

  /** How far the page is wider than its window, or a table wider than its card, in px. */
  overflow() {
    return this.tab.evaluate(() => {
      const tables = [...document.querySelectorAll(".table")].map((card) => card.scrollWidth - card.clientWidth);
      return Math.max(document.documentElement.scrollWidth - innerWidth, ...tables);
    });
  }

  /** What stands in front of cells on a phone, where no head of a table names the columns. */
  async heads(cells) {
    const all = await this.tab.locator(cells).evaluateAll((cells) =>
      cells.map((cell) => getComputedStyle(cell, "::before").content),
    );
    return all.map((content) => content.match(/^"(.*)"$/)?.[1] ?? "");
  }

  /** Keeps a picture: of the window, or of an element. */
  async shot(name, selector) {
    if (!SCREENSHOTS) return;
    mkdirSync(SCREENSHOTS, { recursive: true });
    const what = selector ? this.tab.locator(selector) : this.tab;
    await what.screenshot({ path: `${SCREENSHOTS}/${name}.png` });
  }

  close() {
    return this.tab.close();
  }
}
