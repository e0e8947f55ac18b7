// The question before something is taken away.

import { element } from "./dom.js";

/**
 * Asks; resolves to whether it is to be done. `title` is the question, `name` what it is about, `text` what follows,
 * `action` the word on the button; `more` are elements below the text.
 */
export function confirm({ title, name, text, action }, ...more) {
  const [cancel, act] = [
    element("button", { type: "button" }, "Cancel"),
    element("button", { type: "button", class: "danger" }, action),
  ];
  const dialog = element(
    "dialog",
    { "aria-labelledby": "confirm-title" },
    element("h2", { id: "confirm-title" }, title),
    element("p", { class: "name" }, name),
    element("p", {}, text),
    ...more,
    element("p", { class: "buttons" }, cancel, act),
  );
  document.body.append(dialog);
  return new Promise((resolve) => {
    let answer = false;
    act.addEventListener("click", () => {
      answer = true;
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

/**
 * Asks before a lock is forced, and names its `holders`; resolves to `null` for no, else to whether shared holders are
 * cut off at once.
 */
export async function confirmForce(lock, holders) {
  const now = element("input", { type: "checkbox" });
  const hasShared = lock.holders.some((holder) => holder.mode === "read");
  const question = {
    title: lock.foreign ? "Overwrite the value in place of this lock?" : "Take this lock from its holders?",
    name: lock.resource,
    text: lock.foreign
      ? FOREIGN
      : `Holders: ${holders.length}. Requests waiting: ${lock.waiting}. ${WHAT_HAPPENS}`,
    action: "Force release",
  };
  const list = element("ul", {}, ...holders.map((one) => element("li", {}, one)));
  const more = hasShared ? [element("label", {}, now, " Cut shared holders off at once")] : [];
  return (await confirm(question, list, ...more)) ? now.checked : null;
}

const FOREIGN =
  "Another program put a value there. It is overwritten, and the lock can be taken again. The next request in the " +
  "queue gets it.";

const WHAT_HAPPENS =
  "The next request in the queue gets the lock. A transaction that the old holder begins later is refused by the " +
  "fence; one that is under way is waited for.";
