// The view follows the end while the reader is there, and else stays where the reader is.

import { by } from "./dom.js";

const AT_END_PX = 60;

export class Follower {
  isFollowing = true;
  #scroll = by("scroll");

  // `isGrowing()` says whether text still comes, for the button that leads to it.
  constructor(isGrowing) {
    this.isGrowing = isGrowing;
    let last = 0;
    const moved = () => {
      const { scrollTop } = this.#scroll;
      // only the reader's own move upwards means that the end is no longer followed
      if (this.#isAtEnd()) this.isFollowing = true;
      else if (scrollTop < last - 2) this.isFollowing = false;
      last = scrollTop;
      this.show();
    };
    this.#scroll.addEventListener("scroll", moved, { passive: true });
    const sizes = new ResizeObserver(() => this.keep());
    for (const element of [by("column"), this.#scroll]) sizes.observe(element);
    // what somebody opens stays where they opened it
    by("column").onclick = ({ target }) => {
      if (target.closest("summary, .edit")) this.isFollowing = false;
    };
    by("newer").onclick = () => this.toEnd();
  }

  #isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroll;
    return scrollHeight - scrollTop - clientHeight < AT_END_PX;
  }

  toEnd() {
    this.isFollowing = true;
    this.keep();
  }

  keep() {
    if (this.isFollowing) this.#scroll.scrollTop = this.#scroll.scrollHeight;
    this.show();
  }

  show() {
    by("newer").hidden = this.isFollowing || !this.isGrowing();
  }

  // What the reader sees stays in place while `change` puts something above it.
  async hold(change) {
    const fromEnd = this.#scroll.scrollHeight - this.#scroll.scrollTop;
    this.isFollowing = false;
    await change();
    requestAnimationFrame(() => (this.#scroll.scrollTop = this.#scroll.scrollHeight - fromEnd));
  }
}
