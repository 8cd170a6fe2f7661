// requests.js: requests of a live list or of seen() to the relay, and their replies.

import { failure } from './errors.js';

/** The connection was lost before the reply. */
export const LOST = 'connection lost';

// Negative, to distinguish them from the request numbers of the connection. Random, because tabs share a connection.
const requestNumber = () => -1 - Math.floor(Math.random() * 2 ** 52);

/** `transmit(frame)` returns false without a connection. `listen(listener)` registers a listener of frames. */
export function createRequests({ source, transmit, listen }) {
  let pending; // { r, rows, fields, resolve, reject }
  const off = listen(receive);

  /**
   * Sends a `rows` frame, or another one if `t` is set, with these fields. Resolves to the reply, with the rows and
   * fields of all pages. Rejects with LOST or the `err` frame.
   */
  function send(fields) {
    cancel();
    return new Promise((resolve, reject) => {
      const r = requestNumber();
      pending = { r, rows: [], fields: {}, resolve, reject };
      if (!transmit({ t: 'rows', r, source, ...fields })) cancel();
    });
  }

  function receive({ r, ...frame }) {
    if (!pending || r !== pending.r) return;
    const { rows, resolve, reject } = pending;
    frame.rows?.forEach((row) => rows.push(row));
    Object.assign(pending.fields, frame);
    if (frame.more) return;
    const { fields } = pending;
    pending = undefined;
    if (frame.t === 'err') reject(failure(frame.msg, frame));
    else resolve({ ...fields, rows });
  }

  function cancel() {
    pending?.reject(LOST);
    pending = undefined;
  }

  return { send, cancel, off };
}
