// Settings, from the environment (`k6 run -e NAME=value`).

/** Instances; requests take turns. */
export const TARGETS = (__ENV.TARGETS || "http://127.0.0.1:8080").split(",").map((url) => url.replace(/\/+$/, ""));

/** Reads per second. */
export const BROWSE_RATE = Number(__ENV.BROWSE_RATE || 200);

/** Adjustments per second. */
export const ADJUST_RATE = Number(__ENV.ADJUST_RATE || 50);

export const DURATION = __ENV.DURATION || "1m";

/** How many SKUs take part. Fewer means more waiting for locks. */
export const SKUS = Number(__ENV.SKUS || 200);
