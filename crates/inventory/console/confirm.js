// The question before a lock is taken from its holders.

import { element } from "./dom.js";

/** Asks; resolves to `null` when it is called off, else to whether shared holders are cut off at once. */
export function confirmForce(lock) {
  const now = element("input", { type: "checkbox" });
  const hasShared = lock.holders.some((holder) => holder.mode === "read");
  const [cancel, force] = [
    element("button", { type: "button" }, "Cancel"),
    element("button", { type: "button", class: "danger" }, "Force release"),
  ];
  const dialog = element(
    "dialog",
    { "aria-labelledby": "confirm-title" },
    element("h2", { id: "confirm-title" }, "Take this lock from its holders?"),
    element("p", { class: "name" }, lock.resource),
    element("p", {}, `Holders: ${lock.holders.length}. Requests waiting: ${lock.waiting}. `, WHAT_HAPPENS),
  );
  if (hasShared) dialog.append(element("label", {}, now, " Cut shared holders off at once"));
  dialog.append(element("p", { class: "buttons" }, cancel, force));
  document.body.append(dialog);
  return new Promise((resolve) => {
    let answer = null;
    force.addEventListener("click", () => {
      answer = now.checked;
      dialog.close();
    });
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    dialog.showModal();
    cancel.focus();
  });
}

const WHAT_HAPPENS =
  "The next request in the queue gets the lock. A transaction that the old holder begins later is refused by the " +
  "fence; one that is under way is waited for.";
