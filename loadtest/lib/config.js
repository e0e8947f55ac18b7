// Settings, from the environment (`k6 run -e NAME=value`).

/** Instances; requests take turns. */
export const TARGETS = (__ENV.TARGETS || "http://127.0.0.1:8080").split(",").map((url) => url.replace(/\/+$/, ""));

/** The operators' port of every instance. */
export const OPS = (__ENV.OPS || "http://127.0.0.1:9464").split(",").map((url) => url.replace(/\/+$/, ""));

/** Of the operators' port. */
export const ADMIN_TOKEN = __ENV.ADMIN_TOKEN || "";

/** Reads per second. */
export const READ_RATE = Number(__ENV.READ_RATE || 200);

/** Adjustments or transfers per second. */
export const WRITE_RATE = Number(__ENV.WRITE_RATE || 50);

/** Units of a flash sale. */
export const FLASH_UNITS = Number(__ENV.FLASH_UNITS || 1000);

/** How many customers take turns in a flash sale. */
export const CUSTOMERS = 300;

/** Units that one customer of a flash sale may have. */
export const PER_CUSTOMER = 5;

/** How many SKUs take part. Fewer means more waiting for locks. */
export const SKUS = Number(__ENV.SKUS || 200);
