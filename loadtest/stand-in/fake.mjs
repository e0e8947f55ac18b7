// A service in memory with the routes that the load test asks, which does wrong what FAULT says:
//
//   nothing       nothing is wrong
//   loses         an update is confirmed and not stored: the third
//   loses-last    the same, from the 25th on
//   overwrites    the third update is in the ledger, but not in the quantity
//   refuses       every update is 409
//   refuses-most  every update but one in four is 409
//   forgets       every SKU is 404 once it was created
//   repeats       the third update is applied twice
//   mute          the third update is applied, and its sender never told
//   keyless       an update that is sent again is applied again
//   stampedes     a cached value that was dropped is loaded by the next ten readers
//   keeps         no cached value is ever dropped
//   oversells     a flash sale gives one unit more than it has
//   tokenless     an update is applied without a fencing token
//   cold          every read comes from the database
//   locked        the operators' port takes no token
//
// It prints its URL.

import { createServer } from "node:http";
import { FlashSale } from "./sale.mjs";

const [fault = "nothing"] = process.argv.slice(2);
const stocks = new Map();
const answers = new Map();
/** The key of the update that is never answered. */
let unanswered;
/** How many readers still load it; 0: it is cached. */
const missing = new Map();
let loads = 0;
const sales = new Map();
let updates = 0;
let asked = 0;

function apply(sku, delta, reference, counted = true) {
  const stock = stocks.get(sku);
  if (counted) stock.quantity += delta;
  stock.version += 1;
  stock.movements.unshift({ delta, reference, version: stock.version });
  return { sku, quantity: stock.quantity, version: stock.version };
}

function update(changes, reference) {
  updates += 1;
  const view = ({ sku }) => ({ sku, quantity: stocks.get(sku).quantity, version: stocks.get(sku).version });
  const lost = (fault === "loses" && updates === 3) || (fault === "loses-last" && updates >= 25);
  if (lost) return changes.map(view);
  const counted = !(fault === "overwrites" && updates === 3);
  if (fault === "repeats" && updates === 3) changes.forEach(({ sku, delta }) => apply(sku, delta, reference));
  return changes.map(({ sku, delta }) => apply(sku, delta, reference, counted));
}

/** Status and body of an update; the first answer again when its key is known. */
function write(key, changes, reference, body) {
  const refused = fault === "refuses" || (fault === "refuses-most" && (asked += 1) % 4 > 0);
  if (refused) return [409, { type: "/problems/insufficient-stock", applied: false }];
  if (changes.some(({ sku }) => fault === "forgets" || !stocks.has(sku))) return [404, { applied: false }];
  if (key === unanswered) return [502, {}];
  if (answers.has(key) && fault !== "keyless") return [200, answers.get(key), { "Idempotent-Replayed": "true" }];
  answers.set(key, body(update(changes, reference)));
  if (fault === "mute" && updates === 3) {
    unanswered = key;
    return [502, {}];
  }
  return [200, answers.get(key)];
}

/** What the operators' port answers, which is the same port here. */
function operate(method, what, sku) {
  if (what === "metrics") return [200, `stockade_cache_loads_total{cache="stock",outcome="ok"} ${loads}\n`];
  if (fault === "locked") return [401, { type: "/problems/unauthorized", applied: false }];
  if (method === "GET") return [200, { caches: [] }];
  const dropped = fault !== "keeps" ? (sku ? [sku] : [...stocks.keys()]) : [];
  dropped.forEach((one) => missing.set(one, fault === "stampedes" ? 10 : 1));
  return [204, ""];
}

function read(sku, { quantity, version }) {
  const readers = missing.get(sku) ?? 1;
  missing.set(sku, Math.max(readers - 1, 0));
  loads += Math.min(readers, 1);
  return [200, { sku, quantity, version }];
}

function answer(method, path, query, key, body) {
  const [, root, sku, more] = path.split("/").map(decodeURIComponent);
  const stock = fault === "forgets" ? undefined : stocks.get(sku);
  if (root === "metrics" || root === "admin") return operate(method, root, more);
  if (root === "flash" && method === "PUT") {
    sales.set(sku, new FlashSale(fault, body.quantity, (delta) => apply(sku, delta, null)));
    return [201, sales.get(sku).shown()];
  }
  if (root === "flash") return sales.get(sku).answer(method, path.split("/").slice(3), body);
  if (root === "transfers") {
    const { from, to, quantity, reference } = body;
    const changes = [{ sku: from, delta: -quantity }, { sku: to, delta: quantity }];
    return write(key, changes, reference, ([a, b]) => ({ from: a, to: b, fencing_tokens: { [from]: 1, [to]: 1 } }));
  }
  if (more === "adjustments") {
    const changes = [{ sku, delta: body.delta }];
    return write(key, changes, body.reference, ([of]) => ({ ...of, fencing_token: fault === "tokenless" ? 0 : 1 }));
  }
  if (method === "PUT") {
    stocks.set(sku, { quantity: 0, version: 0, movements: [] });
    return [201, apply(sku, body.quantity, null)];
  }
  if (!sku) return [200, { items: [], next: null }];
  if (!stock) return [404, { applied: false }];
  if (!more) return read(sku, stock);
  const [from, limit] = [Number(query.get("after") || 0), Number(query.get("limit"))];
  const next = from + limit < stock.movements.length ? String(from + limit) : null;
  return [200, { items: stock.movements.slice(from, from + limit), next }];
}

const server = createServer(async (request, response) => {
  const parts = await request.toArray();
  const body = parts.length > 0 ? JSON.parse(Buffer.concat(parts).toString()) : undefined;
  const { pathname, searchParams } = new URL(request.url, "http://127.0.0.1");
  const key = request.headers["idempotency-key"];
  const [status, said, headers] = answer(request.method, pathname, searchParams, key, body);
  const source = fault === "cold" ? "stockade; fwd=uri-miss" : "stockade; hit";
  const type = status < 400 ? "application/json" : "application/problem+json";
  response.writeHead(status, { "Content-Type": type, "Cache-Status": source, ...headers });
  response.end(typeof said === "string" ? said : JSON.stringify(said));
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
