// A flash sale of the fake. A reservation is stored when it is looked at for the first time, or when the sale is closed.

export class FlashSale {
  #fault;
  #give;
  #opened;
  #state = "open";
  #reservations = [];

  /** `give` moves units into the stock. */
  constructor(fault, opened, give) {
    [this.#fault, this.#opened, this.#give] = [fault, opened, give];
    give(-opened);
  }

  /** Reservations that are kept. */
  #kept() {
    return this.#fault === "loses" ? this.#reservations.filter((_, place) => place !== 2) : this.#reservations;
  }

  shown() {
    const remaining = this.#opened - this.#reservations.length;
    return { state: this.#state, opened: this.#opened, stored: this.#kept().length, remaining };
  }

  answer(method, [, id], body) {
    if (method === "POST") return this.#reserve(body.customer);
    if (id) {
      const state = this.#kept().some((one) => one.id === id) ? "stored" : "pending";
      return [200, { id, state }];
    }
    if (method === "DELETE" && this.#state === "open") {
      this.#state = "closed";
      this.#give(this.#opened - this.#kept().length);
    }
    return [200, this.shown()];
  }

  #reserve(customer) {
    const most = this.#opened + (this.#fault === "oversells" ? 1 : 0);
    if (this.#fault === "refuses" || this.#reservations.length >= most) {
      return [409, { type: "/problems/sold-out", applied: false }];
    }
    const reservation = { id: `1-${this.#reservations.length}`, customer, state: "pending" };
    this.#reservations.push(reservation);
    return [201, reservation];
  }
}
