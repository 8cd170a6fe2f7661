// build.js: makes dist/, the form in which the client is shipped and loaded: `npm install`, then `npm run build`.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { transformSync } from '@swc/core';
import { build } from 'esbuild';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

// Names that stay among src/: no application, browser, relay or other tab sees them. None may be a
// field of anything else.
const INTERNAL = `
  open transmit wanted isUser admits onToken onFrame onState onError isAcked retopic wake suspend received settled arrive restart keep
  seen forget markAcked markUnheard handlersFor emit hears handler rung opened failed climb nextWait reset
  enter leave flush sendAck sendNack remember since position
`.trim().split(/\s+/);

const MINIFY = {
  mangle: { toplevel: true },
  compress: {
    ecma: 2020, passes: 4, toplevel: true, pure_getters: true, keep_fargs: false, hoist_vars: true,
    negate_iife: false, loops: false, // smaller once gzipped
    unsafe_arrows: true, unsafe_methods: true, // nothing here is called with `new`
    unsafe: true, // nor is anything built in replaced
  },
};

// Entries of their own, loaded by another one or by the application.
const APART = ['./index.js', './rows.js', './streams.js'];

/** What require() loads is beside what import loads; import() reaches the same files from both. */
const besides = (suffix) => ({
  name: 'besides',
  setup(plugins) {
    plugins.onResolve({ filter: /^\.\// }, ({ path, kind }) => (APART.includes(path)
      ? { path: kind === 'dynamic-import' ? path : path.replace('.js', suffix), external: true }
      : undefined));
  },
});

/** Next.js and others look for it in the first line. */
const directive = (name) => (name === 'react' ? "'use client';" : '');

/** One entry as `format`, with a map. For require(), which no browser loads, size matters less. */
async function bundle(name, format, suffix) {
  const { outputFiles: [map, code] } = await build({
    absWorkingDir: at('.'),
    entryPoints: [`src/${name}.js`],
    outfile: `dist/${name}${suffix}`,
    bundle: true,
    external: ['react'],
    plugins: [besides(suffix)],
    format,
    target: 'es2022',
    mangleProps: new RegExp(`^(${INTERNAL.join('|')})$`),
    minify: format === 'cjs',
    sourcemap: 'external',
    write: false,
  });
  return format === 'cjs' ? { code: code.text } : transformSync(code.text, {
    swcrc: false,
    isModule: true,
    minify: true,
    jsc: { target: 'es2022', minify: MINIFY },
    inputSourceMap: map.text,
    sourceMaps: true,
  });
}

/** { 'dist/index.js': text, 'dist/index.js.map': text, .. } of what src/ is now. */
export async function built() {
  const files = {};
  for (const name of ['index', 'react', 'rows', 'streams']) {
    const { code, map } = await bundle(name, 'esm', '.js');
    files[`dist/${name}.js`] = `${directive(name)}${code}//# sourceMappingURL=${name}.js.map\n`;
    files[`dist/${name}.js.map`] = `${map}\n`;
  }
  for (const name of ['index', 'react']) { // for require()
    const { code } = await bundle(name, 'cjs', '.cjs');
    files[`dist/${name}.cjs`] = code;
    files[`dist/${name}.d.cts`] = readFileSync(at(`src/${name}.d.ts`), 'utf8').replace('./index.js', './index.cjs');
  }
  return files;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  mkdirSync(at('dist'), { recursive: true });
  for (const [path, text] of Object.entries(await built())) writeFileSync(at(path), text);
}
