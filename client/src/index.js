// index.js: connect(), the way in.

import { createClient } from './client.js';
import { checkOptions } from './options.js';

/** Opens a connection that keeps itself alive until close(); see index.d.ts for the options. */
export function connect(options) {
  checkOptions(options);
  return createClient(options);
}
