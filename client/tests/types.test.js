// types.test.js: TypeScript accepts the valid uses in types.ts and rejects the invalid uses.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('.', import.meta.url));
const hasCompiler = spawnSync('tsc', ['--version']).status === 0;

test('types.ts compiles', { skip: !hasCompiler && 'no TypeScript (tsc) is installed' }, () => {
  const { status, stdout } = spawnSync('tsc', ['-p', folder], { encoding: 'utf8' });
  assert.equal(stdout, '');
  assert.equal(status, 0);
});
