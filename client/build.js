// build.js: makes dist/, the form in which the client is shipped and loaded: `npm install`, then `npm run build`.

import { mkdirSync, writeFileSync } from 'node:fs';
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

/** { 'dist/index.js': text, 'dist/index.js.map': text, .. } of what src/ is now. */
export async function built() {
  const files = {};
  for (const name of ['index', 'react', 'rows', 'streams']) {
    const { outputFiles: [map, code] } = await build({
      absWorkingDir: at('.'),
      entryPoints: [`src/${name}.js`],
      outfile: `dist/${name}.js`,
      bundle: true,
      external: ['react', './index.js', './rows.js', './streams.js'],
      format: 'esm',
      target: 'es2022',
      mangleProps: new RegExp(`^(${INTERNAL.join('|')})$`),
      sourcemap: 'external',
      write: false,
    });
    const small = transformSync(code.text, {
      swcrc: false,
      isModule: true,
      minify: true,
      jsc: { target: 'es2022', minify: MINIFY },
      inputSourceMap: map.text,
      sourceMaps: true,
    });
    files[`dist/${name}.js`] = `${small.code}//# sourceMappingURL=${name}.js.map\n`;
    files[`dist/${name}.js.map`] = `${small.map}\n`;
  }
  return files;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  mkdirSync(at('dist'), { recursive: true });
  for (const [path, text] of Object.entries(await built())) writeFileSync(at(path), text);
}
