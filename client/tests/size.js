// size.js: gzipped sizes of dist/: `npm run size`.

import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

/** For index.js, the only file that most pages need. */
export const LIMIT_BYTES = 6_205;

export function sizeOf(name) {
  const code = readFileSync(new URL(`../dist/${name}`, import.meta.url));
  return { name, minified: code.length, gzipped: gzipSync(code, { level: 9 }).length };
}

if (process.argv[1]?.endsWith('size.js')) console.table(['index.js', 'rows.js', 'timed_rows.js', 'conditions.js', 'count.js', 'streams.js', 'react.js', 'vue.js', 'shard.js', 'webpush.js', 'worker.js'].map(sizeOf));
