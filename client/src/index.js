// index.js: connect(), the way in.

import { Client } from './client.js';
import { checkOptions } from './options.js';

/** Opens a connection that keeps itself alive until close(); see index.d.ts for the options. */
export function connect(options) {
  checkOptions(options);
  const client = new Client(options);
  // The caller registers its handlers before the first event can come.
  queueMicrotask(() => {
    if (client.state === 'idle') client.open();
  });
  return client;
}
