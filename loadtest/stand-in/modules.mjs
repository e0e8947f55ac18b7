// Loader hooks: `k6` and its modules are those of the stand-in, and a client's copy of a script imports copies of its
// own.

const OURS = {
  k6: "./world.mjs",
  "k6/data": "./world.mjs",
  "k6/execution": "./world.mjs",
  "k6/http": "./http.mjs",
  "k6/metrics": "./metrics.mjs",
};

export async function resolve(specifier, context, next) {
  if (OURS[specifier]) {
    return { url: new URL(OURS[specifier], import.meta.url).href, shortCircuit: true };
  }
  const found = await next(specifier, context);
  const client = /\?client=\d+$/.exec(context.parentURL || "");
  return client && specifier.startsWith(".") ? { ...found, url: found.url + client[0] } : found;
}

// The scripts are modules, as k6 takes them; no package.json says so to Node.js.
export async function load(url, context, next) {
  return next(url, url.includes("?client=") ? { ...context, format: "module" } : context);
}
