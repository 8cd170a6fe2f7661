// consumer.js: a Node program that writes each notification to a file exactly once, even after a crash.
//
//   node consumer.js http://127.0.0.1:8080 "$(build/clairon token --sub u1 -c .demo/relay.conf)" [FILE]
//
// It appends each notification to FILE, then acks it. After a crash, the relay delivers unacknowledged notifications
// again, and the program skips those that are already in the file. Notifications that need no ack may be lost in a
// crash.

import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { connect } from '../dist/index.js';

const [url, token, file = 'messages.ndjson'] = process.argv.slice(2);

const written = new Set();
const text = await readFile(file, 'utf8').catch(() => '');
const whole = text.slice(0, text.lastIndexOf('\n') + 1); // a crash may have left an incomplete line
for (const line of whole.split('\n').slice(0, -1)) written.add(JSON.parse(line).metadata.id);
await writeFile(file, whole);

const clairon = connect({ url, token });

async function write(n) {
  const { id } = n.metadata;
  if (written.has(id)) return;
  await appendFile(file, `${JSON.stringify(n)}\n`); // if it throws, the notification is nacked and retried
  written.add(id);
}

// The client does not wait for a handler before it calls the next one, so this chain keeps the order of the lines.
let last = Promise.resolve();
clairon.on('*', (n) => {
  last = last.catch(() => {}).then(() => write(n));
  return last;
});

clairon.on('state', ({ state, reason = '' }) => console.log(state, clairon.transport ?? '', reason));
process.on('SIGTERM', () => clairon.close());
