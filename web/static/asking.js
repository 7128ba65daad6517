// The permission card that waits for somebody: it takes the keys when nothing else has them.

const CARD_IS_NEW_MS = 400; // a key that was meant for something else does not answer a question

const openCard = () => document.querySelector(".permission.is-open");

// Soon, the keys go to the card, if `mayTake()` says that nobody is in the middle of something else.
export function offerCard(mayTake) {
  // scrolling to it would move the buttons under a pointer that is about to press one
  setTimeout(() => mayTake() && openCard()?.focus({ preventScroll: true }), CARD_IS_NEW_MS);
}

// Presses the card's first, second or third button. False when there is none, or it came a moment ago.
export function choose(number, changedAt) {
  const card = openCard();
  if (!card || performance.now() - changedAt < CARD_IS_NEW_MS) return false;
  card.querySelectorAll("button[data-decision]")[number - 1].click();
  return true;
}
