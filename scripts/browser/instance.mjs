// An instance of the inventory service, and somebody who holds a row of its database.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const INVENTORY = process.env.INVENTORY;
export const TOKEN = "correct-horse";

/** Fails after thirty seconds in which `holds` is not true. */
export async function until(what, holds) {
  const end = Date.now() + 30_000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`not within 30 s: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

export async function migrate() {
  const child = spawn(INVENTORY, ["migrate"], { stdio: "inherit" });
  const [status] = await once(child, "exit");
  if (status !== 0) throw new Error(`inventory migrate: status ${status}`);
}

export class Instance {
  #child;

  static async start(settings = {}) {
    const instance = new Instance();
    const own = { LISTEN_ADDR: "127.0.0.1:0", OPS_ADDR: "127.0.0.1:0", ADMIN_TOKEN: TOKEN, ...settings };
    const env = { ...process.env, ...own };
    instance.#child = spawn(INVENTORY, ["serve"], { env, stdio: ["ignore", "pipe", "pipe"] });
    const log = [];
    instance.#child.stderr.on("data", (text) => log.push(text));
    for await (const line of createInterface({ input: instance.#child.stdout })) {
      const [, what, url] = line.match(/^(listening|ops) on (\S+)$/) ?? [];
      if (what === "listening") instance.api = url;
      if (what === "ops") {
        instance.ops = url;
        instance.#child.stdout.resume();
        return instance;
      }
    }
    throw new Error(`the instance ended before it listened: ${log.join("")}`);
  }

  signal(name) {
    this.#child.kill(name);
  }

  /** Ends it; a stopped one too. */
  async end() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }

  async put(sku, quantity) {
    const answer = await this.#send("PUT", `/stock/${encodeURIComponent(sku)}`, { quantity });
    if (answer.status !== 201) throw new Error(`PUT ${sku}: ${answer.status} ${await answer.text()}`);
  }

  adjust(sku, delta, reference) {
    return this.#send("POST", `/stock/${encodeURIComponent(sku)}/adjustments`, { delta, reference });
  }

  get(sku) {
    return fetch(new URL(`/stock/${encodeURIComponent(sku)}`, this.api));
  }

  #send(method, path, body) {
    const headers = { "content-type": "application/json" };
    return fetch(new URL(path, this.api), { method, headers, body: JSON.stringify(body) });
  }
}

/** Holds the row of an SKU, as a slow transaction would, until `release` is called. */
export async function holdRow(sku) {
  const psql = spawn("psql", ["--no-psqlrc", "-qAt", process.env.DATABASE_URL], { stdio: ["pipe", "pipe", "inherit"] });
  const held = once(createInterface({ input: psql.stdout }), "line");
  psql.stdin.write(`begin;\nselect 'held' from stock where sku = '${sku.replaceAll("'", "''")}' for update;\n`);
  await held;
  return async () => {
    psql.stdin.end("rollback;\n");
    await once(psql, "exit");
  };
}

/** The rows that a query gives, as text. */
export async function rows(query) {
  const psql = spawn("psql", ["--no-psqlrc", "-qAt", process.env.DATABASE_URL, "-c", query], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const found = [];
  for await (const line of createInterface({ input: psql.stdout })) found.push(line);
  return found;
}
