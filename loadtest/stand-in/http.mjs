// `k6/http`, as far as the scripts use it: a worker sends the request while this thread waits.

import { MessageChannel, Worker, receiveMessageOnPort } from "node:worker_threads";

const { port1: here, port2: there } = new MessageChannel();
const answered = new Int32Array(new SharedArrayBuffer(4));
const code = `
  const { workerData: { there, answered } } = require("node:worker_threads");
  there.on("message", async ({ url, ...init }) => {
    let answer = { status: 0, headers: {}, body: "" };
    try {
      const got = await fetch(url, { ...init, signal: AbortSignal.timeout(20000) });
      answer = { status: got.status, headers: Object.fromEntries(got.headers), body: await got.text() };
    } catch (error) { answer.body = String(error.cause || error); }
    there.postMessage(answer);
    Atomics.store(answered, 0, 1);
    Atomics.notify(answered, 0);
  });`;
new Worker(code, { eval: true, workerData: { there, answered }, transferList: [there] });

function request(method, url, body, { headers } = {}) {
  Atomics.store(answered, 0, 0);
  here.postMessage({ method, url, body, headers });
  // The last answer's notification may come when this thread waits for the next one.
  while (Atomics.load(answered, 0) === 0) Atomics.wait(answered, 0, 0);
  const answer = receiveMessageOnPort(here).message;
  // k6 writes the names of headers so.
  const names = Object.entries(answer.headers).map(([name, value]) => [
    name.replace(/(^|-)\w/g, (start) => start.toUpperCase()),
    value,
  ]);
  const json = (field) => (field ? JSON.parse(answer.body)[field] : JSON.parse(answer.body));
  return { ...answer, headers: Object.fromEntries(names), json };
}

export default {
  get: (url, params) => request("GET", url, undefined, params),
  del: (url, body, params) => request("DELETE", url, body ?? undefined, params),
  put: (url, body, params) => request("PUT", url, body, params),
  post: (url, body, params) => request("POST", url, body, params),
  expectedStatuses: () => null,
  setResponseCallback: () => {},
};
