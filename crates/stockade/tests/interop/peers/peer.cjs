// A lock of another program, told what to do line by line.
//
// usage: peer.cjs KIND URL...    KIND: redlock-4, redlock-5
//
//     acquire NAME SECONDS            yes or no, at once
//     release                         yes or no: did it still hold what it acquired?
//     count NAME SECONDS KEY ROUNDS   adds to a number in ROUNDS critical sections; yes when done

const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");

const [kind, ...urls] = process.argv.slice(2);
const servers = urls.map((url) => new Redis(url));
const once = { retryCount: 0 };

const kinds = {
  "redlock-4": () => {
    const redlock = new (require("redlock-4"))(servers, once);
    return { take: (name, ms) => redlock.lock(name, ms), give: (lock) => lock.unlock() };
  },
  "redlock-5": () => {
    const redlock = new (require("redlock").default)(servers, once);
    return { take: (name, ms) => redlock.acquire([name], ms), give: (lock) => lock.release() };
  },
};
const { take, give } = kinds[kind]();
let held;

// What these two throw says that there was no quorum; anything else is a fault of this program.
async function succeeds(attempt) {
  try {
    await attempt;
    return true;
  } catch (error) {
    if (["LockError", "ExecutionError"].includes(error.name)) return false;
    throw error;
  }
}

const acquire = (name, seconds) =>
  succeeds(take(name, Math.round(seconds * 1000)).then((lock) => { held = lock; }));
const release = () => succeeds(give(held));

async function count(name, seconds, key, rounds) {
  for (let round = 0; round < rounds; round += 1) {
    while (!(await acquire(name, seconds))) await sleep(5 + Math.random() * 45);
    const seen = Number((await servers[0].get(key)) ?? 0);
    await sleep(2);
    await servers[0].set(key, seen + 1);
    await release();
  }
  return true;
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [word, name, seconds, key, rounds] = line.split(" ");
    const done = { acquire: () => acquire(name, seconds), release, count: () => count(name, seconds, key, rounds) };
    console.log((await done[word]()) ? "yes" : "no");
  }
  servers.forEach((server) => server.disconnect());
}

main();
