// consumer.js: a Node program that takes each change exactly once, also across its own death.
//
//   node consumer.js http://127.0.0.1:8080 "$(build/clairon token --sub u1 -c .demo/relay.conf)" [FILE]
//
// It appends to FILE what it was shown. What needs an ack is acked when it is written, so a
// message that was not written yet comes again; one that was is known by its id.

import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { connect } from '../dist/index.js';

const [url, token, file = 'messages.ndjson'] = process.argv.slice(2);

const written = new Set();
const text = await readFile(file, 'utf8').catch(() => '');
const whole = text.slice(0, text.lastIndexOf('\n') + 1); // a line may have been cut by a death
for (const line of whole.split('\n').slice(0, -1)) written.add(JSON.parse(line).metadata.id);
await writeFile(file, whole);

const clairon = connect({ url, token });

async function write(n) {
  const { id } = n.metadata;
  if (written.has(id)) return;
  await appendFile(file, `${JSON.stringify(n)}\n`); // throws: it is nacked, and comes again
  written.add(id);
}

// Handlers do not wait for each other: here each takes its turn, for the order of the lines.
let last = Promise.resolve();
clairon.on('*', (n) => {
  last = last.catch(() => {}).then(() => write(n));
  return last;
});

clairon.on('state', ({ state, reason = '' }) => console.log(state, clairon.transport ?? '', reason));
process.on('SIGTERM', () => clairon.close());
