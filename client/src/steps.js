// steps.js: shows the changes of a transaction together.

const HOLD_MS = 5;

/**
 * The relay sends each change of a transaction in a separate frame, and does not mark the last one. So show() is called
 * when no other change has arrived for HOLD_MS. In a steady stream it is called between two transactions, at most every
 * HOLD_MS.
 */
export function createSteps(show) {
  let last; // the transaction of the last change
  let hasMore = false; // a change has arrived since the timer was started
  let isDue = false; // show before the next transaction
  let timer; // undefined: all changes are shown

  /** Call it before a change of transaction `x` is applied. */
  function begin(x) {
    if (isDue && x !== last) end();
  }

  /** Call it when the change has been applied. */
  function hold(x) {
    last = x;
    hasMore = !!timer;
    timer ??= setTimeout(onTimer, HOLD_MS);
  }

  function onTimer() {
    if (!hasMore) {
      end();
      return;
    }
    hasMore = false;
    isDue = true;
    timer = setTimeout(onTimer, HOLD_MS);
  }

  function end() {
    close();
    show();
  }

  function close() {
    clearTimeout(timer);
    timer = undefined;
    isDue = false;
  }

  return { begin, hold, isHolding: () => !!timer, close };
}
