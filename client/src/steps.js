// steps.js: shows the changes of a transaction together.

const HOLD_MS = 5;
const BURST_CHANGES = 16; // further changes exceed the initial congestion window of a connection
const BURST_HOLD_MS = 200;
const DECAY_MS = 10; // time after which a burst counts one change less

/**
 * The relay sends each change of a transaction in a separate frame, and does not mark the last change. So show() is
 * called when no other change has arrived for HOLD_MS; after a burst of changes for BURST_HOLD_MS, because further
 * changes may wait for the network. In a steady stream, show() is called between two transactions, at most every
 * HOLD_MS. A burst lasts as long as its transaction, and then decays, so that single changes are not delayed.
 */
export function createSteps(show) {
  let last; // the transaction of the last change
  let lastAt = 0; // time of the last change
  let count = 0; // number of changes in the burst
  let heldSince; // time of the first change that is not shown
  let hasMore = false; // a change has arrived since the timer was started
  let wasLate = false; // a timer was late since heldSince
  let timer; // undefined: all changes are shown
  let dueAt; // time at which the timer is due

  /** Call it before a change of transaction `x` is applied. */
  function begin(x) {
    if (x === last) return;
    const now = performance.now();
    if (timer && now >= heldSince + HOLD_MS) end();
    count = Math.max(0, Math.min(count, 2 * BURST_CHANGES) - (now - lastAt) / DECAY_MS);
  }

  /** Call it when the change has been applied. */
  function hold(x) {
    last = x;
    lastAt = performance.now();
    count += 1;
    hasMore = !!timer;
    if (timer) return;
    heldSince = lastAt;
    wasLate = false;
    startTimer();
  }

  function startTimer() {
    const ms = count > BURST_CHANGES ? BURST_HOLD_MS : HOLD_MS;
    timer = setTimeout(onTimer, ms);
    dueAt = performance.now() + ms;
  }

  /** A timer is late if the event loop was blocked. In that case, changes may have arrived that are not handled yet. */
  function onTimer() {
    const isLate = !wasLate && performance.now() > dueAt + HOLD_MS;
    if (hasMore || isLate) {
      wasLate ||= isLate;
      hasMore = false;
      startTimer();
      return;
    }
    end();
  }

  function end() {
    close();
    show();
  }

  function close() {
    clearTimeout(timer);
    timer = undefined;
  }

  return { begin, hold, isHolding: () => !!timer, close };
}
