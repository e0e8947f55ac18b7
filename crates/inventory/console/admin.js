// The admin routes. The token is kept in this object only: it is gone with the page.

export class Refused extends Error {}

export class Admin {
  #token = null;

  get hasToken() {
    return this.#token !== null;
  }

  use(token) {
    this.#token = token;
  }

  forget() {
    this.#token = null;
  }

  /** Asks a route. Throws [`Refused`] with a sentence for people; after 401 the token is forgotten. */
  async ask(method, path) {
    let answer;
    try {
      const headers = { authorization: `Bearer ${this.#token}` };
      answer = await fetch(path, { method, headers, cache: "no-store", signal: AbortSignal.timeout(10_000) });
    } catch {
      throw new Refused("The instance did not answer. The page asks again.");
    }
    const document = await answer.json().catch(() => ({}));
    if (answer.ok) return document;
    if (answer.status === 401) {
      this.forget();
      throw new Refused("The token is not the one of this instance (ADMIN_TOKEN). Enter it again.");
    }
    const detail = document.detail ? `: ${document.detail}` : "";
    throw new Refused(`Refused (${answer.status}): ${document.title ?? answer.statusText}${detail}.`);
  }
}
