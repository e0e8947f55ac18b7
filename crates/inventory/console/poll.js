// Asks the admin routes for a tab, again and again while somebody looks at it.

export class Poll {
  #admin;
  #access;
  #everyMs;
  #ask;
  #isOpen = false;
  #round = null;
  #timer = null;

  /**
   * `ask` asks and shows the answer. It may return after how many milliseconds to ask again, otherwise it is
   * `everyMs`. It gets a function that says whether its round is an old one by now, whose answer is not shown.
   */
  constructor(admin, access, everyMs, ask) {
    [this.#admin, this.#access, this.#everyMs, this.#ask] = [admin, access, everyMs, ask];
    admin.watch(() => this.now());
    document.addEventListener("visibilitychange", () => this.now());
  }

  /** Whether the tab is open. */
  open(isOpen) {
    this.#isOpen = isOpen;
    this.now();
  }

  /** Asks at once. */
  async now() {
    clearTimeout(this.#timer);
    const mine = (this.#round = {});
    const isOld = () => mine !== this.#round;
    if (!this.#isOpen || !this.#admin.hasToken || document.hidden) return;
    let next;
    try {
      next = await this.#ask(isOld);
    } catch (error) {
      this.#access.refused(error);
    } finally {
      if (!isOld()) this.#timer = setTimeout(() => this.now(), next ?? this.#everyMs);
    }
  }
}
