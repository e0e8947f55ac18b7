// The admin routes. The token is kept in this object only: it is gone with the page.

export class Refused extends Error {}

export class Admin {
  #token = null;
  #watchers = [];
  /** By how much the clock of the instance is ahead of the browser's, in ms. */
  #ahead = 0;

  get hasToken() {
    return this.#token !== null;
  }

  /** The time by the clock of the instance, to a second: that of the browser may be wrong. */
  get now() {
    return Date.now() + this.#ahead;
  }

  /** Calls `changed` when a token is given or forgotten. */
  watch(changed) {
    this.#watchers.push(changed);
  }

  use(token) {
    this.#set(token);
  }

  forget() {
    this.#set(null);
  }

  #set(token) {
    this.#token = token;
    this.#watchers.forEach((changed) => changed());
  }

  /**
   * Asks a route, for `limit` milliseconds at most. Throws [`Refused`] with a sentence for people; after 401 the token
   * that was sent is forgotten.
   */
  async ask(method, path, limit = 10_000) {
    const token = this.#token;
    const isRead = method === "GET";
    let answer;
    try {
      const headers = { authorization: `Bearer ${token}` };
      answer = await fetch(path, { method, headers, cache: "no-store", signal: AbortSignal.timeout(limit) });
    } catch {
      throw new Refused(
        isRead
          ? "The instance did not answer."
          : "The instance did not answer, so nobody knows whether it was done: look before you try again.",
      );
    }
    this.#ahead = (Date.parse(answer.headers.get("date")) || Date.now()) - Date.now();
    const document = await answer.json().catch(() => ({}));
    if (answer.ok) return document;
    if (answer.status === 401) {
      // A late answer says nothing of a token that was given meanwhile.
      if (isRead && this.hasToken && token !== this.#token) return this.ask(method, path, limit);
      if (token === this.#token) this.forget();
      throw new Refused("The token is not the one of this instance (ADMIN_TOKEN). Enter it again.");
    }
    const { title = answer.statusText, detail, applied } = document;
    // It says what became of a change, which a read is not.
    const more = detail && !(isRead && answer.status >= 500) ? `: ${detail}` : "";
    throw new Refused(`${isRead || applied !== false ? "Answered" : "Refused"} (${answer.status}): ${title}${more}.`);
  }
}
