// seen.js: waits for the changes of a transaction, see seen() of the client. Part of rows.js.

import { failure } from './errors.js';

const TIMEOUT_MS = 30_000;

/**
 * Resolves when a notification of transaction `xid` has arrived and the lists contain it. If the notification was lost
 * in a gap, resolves when the rows of all lists contain the transaction. Rejects after `timeout` milliseconds, and when
 * the client closes. `hasArrived(x)`: whether `x` is among the recent notifications.
 */
export function seen({ client, listen, lists, hasArrived }, xid, { timeout = TIMEOUT_MS } = {}) {
  const x = String(xid);
  const offs = [];
  let timer;
  let check;
  let isFound = false;
  const isKnown = () => hasArrived(x) || (lists.size > 0 && [...lists].every((list) => list.contains(x)));
  return new Promise((resolve, reject) => {
    const fail = (code, text) => reject(failure(`transaction ${x}: ${text}`, { code }));
    if (!/^\d+$/.test(x)) throw new TypeError(`seen(): ${x} is not a transaction id`);
    // Resolves in a later task, because lists show changes after their task.
    const checkLater = () => {
      check ??= setTimeout(async () => {
        check = undefined;
        if (isFound || !isKnown()) return;
        isFound = true;
        await Promise.all([...lists].map((list) => list.settle()));
        resolve();
      });
    };
    timer = setTimeout(fail, timeout, 'timeout', `no change has arrived within ${timeout} ms`);
    offs.push(listen(checkLater), client.on('state', ({ state, reason }) => state === 'closed' && fail(state, reason)));
    if (client.state === 'closed') fail('closed', 'the client is closed');
    checkLater();
  }).finally(() => {
    clearTimeout(timer);
    clearTimeout(check);
    offs.forEach((off) => off());
  });
}
