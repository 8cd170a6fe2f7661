// seen.js: waits until the lists show a transaction, see seen() of the client. Part of rows.js.

import { BUSY, failure } from './errors.js';
import { LOST, createRequests } from './requests.js';

const TIMEOUT_MS = 30_000;
const AGAIN_MS = 1_000; // after a network failure, over HTTP

/**
 * Asks the relay for a barrier behind the transaction `xid`, also if the transaction sent this user nothing. Then waits
 * until all lists show what arrived before it. Over HTTP the notifications may arrive later than the reply: then lists
 * whose rows lack the transaction load them again. Rejects with the code `rolledback`, `timeout` after `timeout`
 * milliseconds, or `closed` when the client closes, and with other errors of the relay.
 */
export function seen({ client, listen, transmit, lists }, xid, { timeout = TIMEOUT_MS } = {}) {
  const x = String(xid);
  const requests = createRequests({ transmit, listen });
  const fail = (code, text) => failure(`transaction ${x}: ${text}`, { code });
  let isOver = false;
  let timer;
  let again;
  let off;
  let obstacle = ''; // why the relay did not pass the last barrier

  /** Resolves when the connection is open. */
  const opened = () => new Promise((resolve) => {
    const offOpen = client.on('state', ({ state }) => {
      if (state !== 'open') return;
      offOpen();
      resolve();
    });
    if (client.state === 'open') resolve(offOpen());
  });

  /** Repeats the request after a lost connection, and while the relay is busy or the transaction runs. */
  async function passBarrier() {
    while (!isOver) {
      await opened();
      if (isOver) break;
      try {
        return await requests.send({ t: 'barrier', x });
      } catch (error) {
        if (isOver) break;
        if (error !== LOST && ![BUSY, undefined].includes(error.code)) throw error;
        if (error.code === BUSY) obstacle = `: ${error.message}`;
        const delay = error === LOST ? 0 : error.after || AGAIN_MS;
        await new Promise((resolve) => { again = setTimeout(resolve, delay); });
      }
    }
    return {};
  }

  /** A load that failed is repeated, unless the list has an error. */
  async function show(list) {
    while (client.transport !== 'ws' && !isOver && !list.contains(x)) {
      await list.reload();
      if (list.contains(x) || list.hasFailed()) break;
      await new Promise((resolve) => { again = setTimeout(resolve, AGAIN_MS); });
    }
    await list.settle();
  }

  async function run() {
    const { committed } = await passBarrier();
    obstacle = '';
    if (committed === false) throw fail('rolledback', 'rolled back');
    await new Promise((resolve) => { again = setTimeout(resolve); }); // lists show changes after their task
    await Promise.all([...lists].map(show));
  }

  return new Promise((resolve, reject) => {
    if (!/^[1-9]\d*$/.test(x)) throw new TypeError(`seen(): ${x} is not a transaction id`);
    timer = setTimeout(() => reject(fail('timeout', `not visible within ${timeout} ms${obstacle}`)), timeout);
    off = client.on('state', ({ state, reason }) => {
      if (state !== 'open') requests.cancel(); // the reply is lost
      if (state === 'closed') reject(fail(state, reason));
    });
    if (client.state === 'closed') reject(fail('closed', 'the client is closed'));
    run().then(resolve, reject);
  }).finally(() => {
    isOver = true;
    [timer, again].forEach(clearTimeout);
    off?.();
    requests.off();
    requests.cancel();
  });
}
