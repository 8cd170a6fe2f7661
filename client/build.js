// build.js: builds dist/, the published files: `npm install`, then `npm run build`.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { transformSync } from '@swc/core';
import { build } from 'esbuild';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

// Internal property names, which are mangled: no application, browser, relay or other tab uses them. No other object
// may have a property with one of these names.
const INTERNAL = `
  open wanted isUser admits onToken onFrame onState onError isAcked retopic wake suspend received handled arrive restart keep
  forget markAcked markUnhandled handlersFor emit accepts handler nextWait reset
  enter leave flush sendAck sendNack remember since cursor transmit listen lists lastChange report clock columns demand show handleChange
  missingFrom dropContained startSession settings
`.trim().split(/\s+/);

// Entries share objects, so the short name of a property is the same in all of them.
let mangleCache = {};

const MINIFY = {
  mangle: { toplevel: true },
  compress: {
    ecma: 2020, passes: 4, toplevel: true, pure_getters: true, keep_fargs: false, hoist_vars: true,
    negate_iife: false, loops: false, // smaller once gzipped
    unsafe_arrows: true, unsafe_methods: true, // no function is called with `new`
    unsafe: true, // no built-in is replaced
  },
};

const MODULES = ['index', 'react', 'vue', 'rows', 'timed_rows', 'conditions', 'count', 'streams', 'shard', 'webpush', 'worker'];

// Entry points, imported by another entry point or by the application.
const ENTRIES = ['./index.js', './rows.js', './timed_rows.js', './conditions.js', './count.js', './streams.js'];

/** Entry points import each other as separate files. */
const siblings = (suffix) => ({
  name: 'siblings',
  setup(plugins) {
    plugins.onResolve({ filter: /^\.\// }, ({ path }) => (ENTRIES.includes(path)
      ? { path: path.replace('.js', suffix), external: true }
      : undefined));
  },
});

/** Next.js and other frameworks expect the directive in the first line. */
const directive = (name) => (name === 'react' ? "'use client';" : '');

/** Builds one entry as `format`, with a source map. Browsers do not load the CommonJS files, so their size matters less. */
async function bundle(name, format, suffix) {
  const { outputFiles: [map, code], mangleCache: names } = await build({
    absWorkingDir: at('.'),
    entryPoints: [`src/${name}.js`],
    outfile: `dist/${name}${suffix}`,
    bundle: true,
    external: ['react', 'vue'],
    plugins: [siblings(suffix)],
    format,
    supported: { 'dynamic-import': format === 'esm' }, // CommonJS files use require(): Jest does not support import()
    target: 'es2022',
    mangleProps: new RegExp(`^(${INTERNAL.join('|')})$`),
    mangleCache,
    minify: format === 'cjs',
    sourcemap: 'external',
    write: false,
  });
  mangleCache = names;
  return format === 'cjs' ? { code: code.text } : transformSync(code.text, {
    swcrc: false,
    isModule: true,
    minify: true,
    jsc: { target: 'es2022', minify: MINIFY },
    inputSourceMap: map.text,
    sourceMaps: true,
  });
}

/** Builds the current src/: { 'dist/index.js': text, 'dist/index.js.map': text, .. }. */
export async function built() {
  const files = {};
  mangleCache = {};
  for (const name of MODULES) {
    const { code, map } = await bundle(name, 'esm', '.js');
    files[`dist/${name}.js`] = `${directive(name)}${code}//# sourceMappingURL=${name}.js.map\n`;
    files[`dist/${name}.js.map`] = `${map}\n`;
  }
  for (const name of MODULES.filter((each) => each !== 'worker')) { // for require()
    files[`dist/${name}.cjs`] = (await bundle(name, 'cjs', '.cjs')).code;
  }
  for (const name of ['index', 'react', 'vue', 'shard', 'webpush']) {
    files[`dist/${name}.d.cts`] = readFileSync(at(`src/${name}.d.ts`), 'utf8').replace('./index.js', './index.cjs');
  }
  return files;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  mkdirSync(at('dist'), { recursive: true });
  for (const [path, text] of Object.entries(await built())) writeFileSync(at(path), text);
}
