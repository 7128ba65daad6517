// A tab that nobody looks at: its stream is given up after a while, and the turn is looked after by a plain question.

const KEEPS_STREAM_MS = 5000;
const ASKS_EVERY_MS = 5000;

export class Absence {
  #timer = null;

  // `look()` runs again and again while the tab is hidden, the first time after a while.
  constructor(look) {
    this.look = look;
  }

  begin() {
    this.end();
    this.#timer = setTimeout(() => this.#look(), KEEPS_STREAM_MS);
  }

  end() {
    clearTimeout(this.#timer);
  }

  async #look() {
    if (!document.hidden) return;
    await this.look();
    this.#timer = setTimeout(() => this.#look(), ASKS_EVERY_MS);
  }
}
