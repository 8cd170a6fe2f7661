// index.js: connect(), the way in.

import { createClient } from './client.js';
import { checkOptions } from './options.js';

/** Opens a connection that keeps itself alive until close(); see index.d.ts for the options. */
export function connect(options) {
  checkOptions(options);
  const { client, open } = createClient(options);
  // The caller registers its handlers before the first event can come.
  queueMicrotask(() => {
    if (client.state === 'idle') open();
  });
  return client;
}
