// Never two questions at once: who asks while one is on its way gets the answer to the next, since the first may
// already be old.

export function freshly(ask) {
  let asking = null;
  let again = false;
  const untilFresh = async () => {
    do {
      again = false;
      await ask();
    } while (again);
  };
  return () => {
    if (asking) again = true;
    else asking = untilFresh().finally(() => (asking = null));
    return asking;
  };
}
