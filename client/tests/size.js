// size.js: how much a page loads: `npm install`, then `npm run size`. Fails above the limit.

import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const LIMIT_BYTES = 6_000;

const options = { bundle: true, minify: true, format: 'esm', write: false, splitting: true, outdir: '/', external: ['react'] };
const at = (path) => new URL(`../src/${path}`, import.meta.url).pathname;

async function sizes(entry) {
  const { outputFiles } = await build({ ...options, entryPoints: [at(entry)] });
  return outputFiles.map(({ path, contents }) => ({
    name: path.replace(/^\/|-\w+(?=\.js)/g, ''),
    minified: contents.length,
    gzipped: gzipSync(contents, { level: 9 }).length,
  }));
}

const [entry, ...later] = await sizes('index.js');
const when = {
  'tabs.js': 'beside the token, where a browser can share',
  'streams.js': 'when no WebSocket gets through',
};
console.log('what is loaded            minified  gzipped');
for (const { name, minified, gzipped } of [entry, ...later, ...await sizes('react.js')]) {
  console.log(`${name.padEnd(24)} ${String(minified).padStart(9)} ${String(gzipped).padStart(8)}  ${when[name] ?? ''}`);
}
if (entry.gzipped > LIMIT_BYTES) {
  console.error(`index.js is above ${LIMIT_BYTES} bytes`);
  process.exitCode = 1;
}
