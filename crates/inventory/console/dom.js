// Elements. Text goes in as text nodes only: a name that looks like markup stays a name.

/** An element with properties (class, id, role, aria-…) and children; strings become text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Sets the text of an element if it differs, so that screen readers do not read it again. */
export function say(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** Sets the class of an element if it differs. */
export function look(target, name) {
  if (target.className !== name) target.className = name;
}

/** A table with these heads of columns, and rows. */
export function table(properties, columns, rows) {
  const heads = columns.map((text) => element("th", { scope: "col" }, text));
  const head = element("thead", {}, element("tr", {}, ...heads));
  return element("table", properties, head, element("tbody", {}, ...rows));
}
