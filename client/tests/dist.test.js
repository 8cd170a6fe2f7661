// dist.test.js: dist/ is small enough and built from the current sources.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import { LIMIT_BYTES, sizeOf } from './size.js';

const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
const maps = ['index', 'react', 'vue', 'rows', 'timed_rows', 'conditions', 'count', 'streams', 'shard', 'webpush', 'worker'].map((name) => JSON.parse(read(`dist/${name}.js.map`)));

test(`the base entry has less than ${LIMIT_BYTES} bytes, gzipped`, () => {
  assert.ok(sizeOf('index.js').gzipped < LIMIT_BYTES, JSON.stringify(sizeOf('index.js')));
});

test('README has the sizes of all files', () => {
  const readme = read('README.md');
  /** Versions of zlib differ by some bytes. */
  const check = (file, kilobytes, bytes) => assert.ok(Math.abs(kilobytes * 1000 - bytes) < 100, `${file}: ${kilobytes} kB, not ${bytes} bytes`);
  const rows = [...readme.matchAll(/^\| `(?:clairon\/)?([\w.]+)`.*\| ([\d.]+) kB \| ([\d.]+) kB \|$/gm)];
  assert.equal(rows.length, maps.length);
  for (const [, name, minified, gzipped] of rows) {
    const file = name === 'clairon' ? 'index.js' : `${name.replace(/\.js$/, '')}.js`;
    check(file, minified, sizeOf(file).minified);
    check(file, gzipped, sizeOf(file).gzipped);
  }
  for (const [, file, gzipped] of readme.matchAll(/`([\w.]+\.js)` \(([\d.]+) kB\)/g)) check(file, gzipped, sizeOf(file).gzipped);
});

test('the entry point imports only the rows of live() and the fallback transports, on demand', () => {
  const importsOf = (name) => [...new Set(read(`dist/${name}.js`).match(/\bimport\b[^)]*\)/g))].sort();
  assert.deepEqual(importsOf('index'), ['import("./rows.js")', 'import("./streams.js")']);
  assert.deepEqual(importsOf('rows'), ['import("./conditions.js")', 'import("./count.js")', 'import("./timed_rows.js")']);
  assert.match(read('dist/count.js'), /^import\{[^}]*\}from"\.\/conditions\.js"/);
  for (const name of ['timed_rows', 'conditions', 'streams', 'webpush', 'worker']) assert.deepEqual(importsOf(name), []);
  assert.match(read('dist/index.js'), /\/\/# sourceMappingURL=index\.js\.map\n$/);
});

test('dist/ is built from the current src/ (else: npm run build)', () => {
  const held = new Map();
  for (const { sources, sourcesContent } of maps) {
    sources.forEach((path, i) => held.set(path.replace('../src/', ''), sourcesContent[i]));
  }
  const names = readdirSync(new URL('../src', import.meta.url)).filter((name) => name.endsWith('.js'));
  for (const name of names) assert.equal(held.get(name), read(`src/${name}`), name);
  assert.equal(held.size, names.length);
});

const builder = await import('../build.js').catch(() => null);

// Needs `npm install`.
if (builder) {
  test('a new build has the same result', async () => {
    for (const [path, text] of Object.entries(await builder.built())) assert.equal(read(path), text, path);
  });
}
