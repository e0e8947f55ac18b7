// Runs a script of the load test without k6, to test the script itself:
//
//   node run.mjs SCRIPT [ITERATIONS] [CLIENTS]     (default 30 and 3)
//
// ITERATIONS is how many the slowest scenario has; the others have more, in the proportion of their rates.
//
// What it is not: a load test, or k6. Requests go one after another, so nothing is measured and nothing contends. There
// are no rates and no durations. Of the thresholds it looks at those on metrics of the scripts and on `checks`, and
// knows `rate` and `avg` only. Status 0: passed, 99: a threshold was crossed, 107: setup, an iteration or the teardown
// threw. (k6 goes on when an iteration throws.)

import { readFileSync } from "node:fs";
import { register } from "node:module";
import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { crossed } from "./metrics.mjs";
import * as world from "./world.mjs";

const [script, iterations = "30", clients = "3"] = process.argv.slice(2);
const path = resolve(script);

register("./modules.mjs", import.meta.url);
Object.assign(globalThis, {
  __ENV: process.env,
  __VU: 0,
  open: (file) => readFileSync(resolve(dirname(path), file), "utf8"),
});

/** A client has its own copy of every module of the script. Number 0 does setup and teardown. */
const load = (client) => import(`${pathToFileURL(path)}?client=${client}`);

async function main() {
  const main = await load(0);
  const own = await Promise.all(Array.from({ length: Number(clients) }, (_, i) => load(i + 1)));
  const data = JSON.stringify(main.setup());
  const scenarios = Object.values(main.options.scenarios);
  const perSecond = ({ rate, timeUnit }) => rate / parseInt(timeUnit, 10);
  const slowest = Math.min(...scenarios.map(perSecond));
  for (let i = 0; i < Number(iterations); i += 1) {
    for (const { exec, ...scenario } of scenarios) {
      const times = Math.round(perSecond(scenario) / slowest);
      for (let n = i * times; n < (i + 1) * times; n += 1) {
        world.scenario.iterationInTest = n;
        globalThis.__VU = 1 + (n % own.length);
        own[n % own.length][exec](JSON.parse(data));
      }
    }
  }
  globalThis.__VU = 0;
  main.teardown(JSON.parse(data));
  return crossed(main.options.thresholds);
}

try {
  const failed = await main();
  failed.forEach((line) => console.error(`crossed: ${line}`));
  process.exit(failed.length > 0 ? 99 : 0);
} catch (error) {
  console.error(error.stack);
  process.exit(107);
}
