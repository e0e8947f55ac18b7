// The form for the admin token. Each tab that needs the token has one; the token is the same for all.

import { Refused } from "./admin.js";
import { element, say } from "./dom.js";
import { isLocal } from "./token.js";

const NO_ROUTES = "ADMIN_TOKEN is not set on this instance, so it has no admin routes: nothing can be shown here.";

export class Access {
  #admin;
  #parts;
  #body;
  #why;
  #isThere = true;
  /** Whether a token was given here that no answer has confirmed. */
  #isNew = false;

  /** In `parent`, with ids that begin with `name`. `body` is hidden without a token; `why` says what needs it. */
  constructor(parent, admin, { name, body, why }) {
    // A visitor of the demonstration has no other way to the token, and a reload forgets it.
    const link = isLocal() ? " The link that `make demo` prints brings it." : "";
    [this.#admin, this.#body, this.#why] = [admin, body, `${why}${link}`];
    const token = element("input", {
      id: `${name}-token`,
      type: "password",
      autocomplete: "off",
      spellcheck: "false",
    });
    const forget = element("button", { id: `${name}-forget`, type: "button" }, "Forget the token");
    const form = element(
      "form",
      { id: `${name}-form`, class: "bar", autocomplete: "off" },
      element("label", {}, "Admin token ", token),
      element("button", { type: "submit" }, "Use the token"),
      forget,
    );
    const note = element("p", { id: `${name}-note`, role: "status" });
    parent.append(form, note);
    this.#parts = { form, token, forget, note, heading: parent.previousElementSibling };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = token.value.trim();
      token.value = "";
      this.#isNew = Boolean(given);
      if (given) admin.use(given);
    });
    forget.addEventListener("click", () => {
      admin.forget();
      token.focus();
    });
    admin.watch(() => this.#draw());
    this.#draw();
  }

  /** Whether the instance has admin routes, as its snapshots say. */
  routes(there) {
    if (there === this.#isThere) return;
    this.#isThere = there;
    this.#draw();
  }

  /** Takes note that the tab has its answer. */
  answered() {
    this.#tell("");
    // The field that had the focus is gone with the first one.
    if (this.#isNew && document.activeElement === document.body) this.#parts.heading.focus();
    this.#isNew = false;
  }

  /** Says what an answer was refused for: in `place`, if the next answer of the tab must not take it away. */
  refused(error, place = this.#parts.note) {
    if (!(error instanceof Refused)) throw error;
    say(place, error.message);
    if (place === this.#parts.note) this.#body.classList.add("stale");
    if (!this.#admin.hasToken) this.#parts.token.focus();
  }

  #tell(text) {
    say(this.#parts.note, text);
    this.#body.classList.remove("stale");
  }

  #draw() {
    const { form, forget } = this.#parts;
    const { hasToken } = this.#admin;
    form.hidden = !this.#isThere;
    form.classList.toggle("used", hasToken);
    this.#body.hidden = forget.hidden = !hasToken;
    this.#tell(!this.#isThere ? NO_ROUTES : hasToken ? "" : this.#why);
  }
}
