// package.test.js: the installed package works: imports, types, bundlers, links, snippets.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import {
  copyFileSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import test, { after } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const app = mkdtempSync(join(tmpdir(), 'clairon-app-'));
after(() => rmSync(app, { recursive: true }));

/** React from Debian's packages, with server rendering. */
const REACT_HOME = '/usr/share/nodejs';

const esbuild = await import('esbuild').catch(() => null); // needs `npm install`

const has = (tool) => spawnSync(tool, ['--version']).status === 0;

function run(command, args, cwd = app) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8', timeout: 600_000 });
  assert.equal(status, 0, `${command} ${args.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

function write(path, text) {
  mkdirSync(dirname(join(app, path)), { recursive: true });
  writeFileSync(join(app, path), text);
}

/** The parts of React that the hooks use. `render()` calls one component, and then runs its effects. */
const REACT = `
const cells = [];
let at = 0;
let effects = [];
const cell = (make) => cells[at++] ??= make();
exports.createContext = exports.createElement = exports.useContext = () => ({});
exports.useRef = (current) => cell(() => ({ current }));
exports.useState = (value) => { const it = cell(() => ({ value })); return [it.value, (next) => { it.value = next; }]; };
exports.useEffect = (act, inputs) => {
  const it = cell(() => ({}));
  if (it.inputs?.every((input, i) => input === inputs[i])) return;
  effects.push(() => { it.clean?.(); it.clean = act(); it.inputs = inputs; });
};
exports.render = (component) => {
  at = 0;
  effects = [];
  const result = component();
  effects.forEach((run) => run());
  return result;
};
`;

/** The parts of Vue that the composable uses. `set()` changes a ref and runs the watchers, `unmount()` ends them. */
const VUE = `
const watchers = [];
const run = (one) => {
  one.clean?.();
  one.clean = undefined;
  one.act(one.source(), undefined, (clean) => { one.clean = clean; });
};
exports.shallowRef = (value) => ({ value });
exports.toValue = (from) => (typeof from === 'function' ? from() : 'value' in Object(from) ? from.value : from);
exports.watch = (source, act) => { watchers.push({ source, act }); run(watchers.at(-1)); };
exports.set = (ref, value) => { ref.value = value; watchers.forEach(run); };
exports.unmount = () => watchers.splice(0).forEach((one) => one.clean?.());
`;

/** An application with the package and stubs of React and Vue, installed by npm. */
function install() {
  write('package.json', '{"name":"app","private":true}');
  const options = ['--ignore-scripts', '--offline', '--no-audit', '--no-fund'];
  const tarball = run('npm', ['pack', '--silent', '--ignore-scripts', root]).trim();
  run('npm', ['install', ...options, `./${tarball}`]);
  run('npm', ['install', ...options]); // the package is still a copy, not a link
  write('node_modules/react/package.json', '{"name":"react","version":"18.0.0","main":"index.js","types":"index.d.ts"}');
  copyFileSync(join(root, 'tests/react.d.ts'), join(app, 'node_modules/react/index.d.ts'));
  write('node_modules/react/index.js', REACT);
  write('node_modules/vue/package.json', '{"name":"vue","version":"3.3.0","main":"index.js","types":"index.d.ts"}');
  write('node_modules/vue/index.js', VUE);
  write('node_modules/vue/index.d.ts', `export interface ShallowRef<T> { value: T }
    export type MaybeRefOrGetter<T> = T | ShallowRef<T> | (() => T);`);
}

const skip = !has('npm') && 'npm is not installed';
if (!skip) install();

const NAMES = 'ClaironProvider,useClairon,useConnectionState,useCount,useLive,useLiveList,useMessages';
const USES = {
  'import.mjs': "import { connect } from 'clairon'; import * as hooks from 'clairon/react'; import * as vue from 'clairon/vue'; import { shardOf } from 'clairon/shard'; import { enable } from 'clairon/webpush';",
  'require.cjs': "const { connect } = require('clairon'); const hooks = require('clairon/react'); const vue = require('clairon/vue'); const { shardOf } = require('clairon/shard'); const { enable } = require('clairon/webpush');",
};

for (const [file, text] of Object.entries(USES)) {
  test(`${file}: all entries load in an application with React and Vue`, { skip }, () => {
    assert.equal(lstatSync(join(app, 'node_modules/clairon')).isSymbolicLink(), false);
    write(file, `${text}\nconsole.log(typeof connect, Object.keys(hooks).sort().join(), Object.keys(vue).sort().join(), shardOf('u1', 16));`);
    assert.equal(run('node', [file]), `function ${NAMES} useCount,useLive 3\n`);
  });
}

test('the dynamic imports load from ES modules and from CommonJS', { skip }, () => {
  for (const [file, text] of Object.entries(USES)) {
    write(`late-${file}`, `${text}
      const client = connect({ url: 'ws://127.0.0.1:1', token: 'T', transports: ['sse'], fetch: async () => { throw new Error('no'); } });
      const list = client.live('t', { key: 'id', load: () => [] });
      const off = client.on('state', ({ state, code }) => {
        if (state !== 'waiting') return;
        off();
        console.log(code);
        list.reload().then(() => { console.log(list.loading); client.close(); });
      });`);
    assert.equal(run('node', [`late-${file}`]), 'unreachable\nfalse\n');
  }
});

test('if only index.js is served, errors name the missing file, and close() is final', () => {
  mkdirSync(join(app, 'alone'), { recursive: true });
  copyFileSync(join(root, 'dist/index.js'), join(app, 'alone/index.mjs'));
  write('alone/page.mjs', `import { connect } from './index.mjs';
    const options = { url: 'ws://127.0.0.1:1', token: 'T', transports: ['poll'] };
    // close() at any step of the start, also when import() fails.
    const closed = Array.from({ length: 60 }, (_, steps) => {
      const it = connect(options);
      it.on('state', async ({ state }) => {
        if (state !== 'connecting') return;
        for (let i = 0; i < steps; i += 1) await 0;
        it.close();
      });
      return it;
    });
    const client = connect(options);
    const list = client.live('t', { key: 'id', load: () => [] });
    const errors = [];
    client.on('error', ({ error }) => errors.push(error.message));
    client.on('state', ({ state, reason }) => {
      if (state !== 'waiting') return;
      console.log(/streams[.]js/.test(reason), errors.length, /rows[.]js/.test(errors[0]), list.error.message === errors[0]);
      list.close();
      client.close();
      const check = () => (closed.every(({ state }) => state === 'closed') ? console.log(true) : setTimeout(check, 5));
      check();
    });`);
  assert.equal(run('node', ['alone/page.mjs']), 'true 1 true true\ntrue\n');
});

/** A relay that replies to the first poll only. */
const ONE_POLL = `const onePoll = (polls = 0) => () => (polls++ ? new Promise(() => {})
  : Promise.resolve(new Response(null, { status: 204, headers: { 'Clairon-Pos': '1' } })));`;

/** A page with a fake relay that serves `rows`; `page` is the rest of its program. */
const withRelay = (page) => `import { connect } from './index.mjs';
  import { copyFileSync } from 'node:fs';
  const serve = (name) => copyFileSync(\`${join(root, 'dist')}/\${name}\`, new URL(name, import.meta.url));
  ${ONE_POLL}
  const sent = [];
  let socket;
  class Relay {
    constructor() { socket = this; setTimeout(() => { this.onopen(); this.sends({ t: 'connected', user: 'u1', resumed: false, pos: '0' }); }); }
    sends(...frames) { this.onmessage({ data: frames.map((frame) => JSON.stringify(frame)).join('\\n') }); }
    send(line) {
      const { t, r, snapshot } = JSON.parse(line);
      sent.push(t);
      if (t === 'rows') this.sends({ t, r, key: ['id'], snapshot: '10:10:', rows: [{ id: 1 }], count: 7 });
      if (t === 'barrier') this.sends({ t, r, committed: true });
    }
    close() {}
  }
  const until = async (what) => { while (!what()) await new Promise((resolve) => { setTimeout(resolve, 5); }); };
  const change = (pos, ack) => ({ t: 'msg', pos, x: '10', rule: 'default', n: {
    metadata: { id: pos, source: 't', topic: 'app.t', operation: 'create', timestamp: '2026-01-01T00:00:00.000000Z' },
    payload: { before: null, after: { id: 2 } }, routing: { retry: { ack_required: ack, attempts: 0 } } } });
  const client = connect({ url: 'ws://127.0.0.1:1', token: 'T', WebSocket: Relay });
  const errors = [];
  client.on('error', ({ error }) => errors.push(error.message));
  ${page}
  client.close();`;

function writePage(folder, page) {
  write(`${folder}/package.json`, '{"type":"module"}');
  copyFileSync(join(root, 'dist/index.js'), join(app, folder, 'index.mjs'));
  write(`${folder}/page.js`, withRelay(page));
}

test('a list whose rows.js cannot be loaded imports it again, and does not affect other handlers', () => {
  writePage('late', `
    let calls = 0;
    client.on('t', () => { calls += 1; });
    const list = client.live('t');
    const states = [];
    await until(() => list.error && client.state === 'open');
    console.log(list.loading, list.rows.length, /rows[.]js/.test(list.error.message));
    socket.sends(change('1', true));
    await until(() => sent.includes('ack'));
    await list.reload();
    const error = await client.seen('9').catch((each) => each);
    serve('rows.js');
    await until(() => !list.loading);
    console.log(list.error, JSON.stringify(list.rows), calls, sent.includes('nack'));
    await client.seen('9');
    console.log(/rows[.]js/.test(error.message), errors.every((text) => /rows[.]js/.test(text)));`);
  assert.equal(run('node', ['late/page.js']), 'true 0 true\nundefined [{"id":1}] 1 false\ntrue true\n');
});

test('a change that only a list without rows.js handles is neither acked nor nacked, and its retry reaches the list', () => {
  writePage('only', `
    const list = client.live('t');
    await until(() => list.error && client.state === 'open');
    socket.sends(change('1', true));
    await new Promise((resolve) => { setTimeout(resolve, 50); });
    console.log(sent.join());
    serve('rows.js');
    await list.reload();
    await until(() => !list.loading);
    socket.sends(change('1', true));
    await until(() => sent.includes('ack') && list.rows.length === 2);
    console.log(sent.includes('nack'));`);
  assert.equal(run('node', ['only/page.js']), 'connect\nfalse\n');
});

test('a list imports rows.js once at a time, a closed list reports nothing, and a closed client does not retry', () => {
  writePage('once', `
    const list = client.live('t');
    await Promise.all([list.reload(), list.reload()]);
    console.log(errors.length);
    list.close();
    const closed = client.live('t');
    const ended = closed.reload();
    closed.close();
    await ended;
    console.log(errors.length, closed.error);
    Math.random = () => 1;
    const { setTimeout: later } = globalThis;
    globalThis.setTimeout = (act, ms, ...given) => later(act, ms < 400 ? ms : 1e6, ...given);
    const waiting = client.live('t');
    await until(() => waiting.error && client.state === 'open');
    client.close();
    await until(() => !waiting.loading);`);
  assert.equal(run('node', ['once/page.js']), '1\n1 undefined\n');
});

test('a list with conditions imports conditions.js again, and a count count.js', () => {
  writePage('conditions', `
    serve('rows.js');
    const list = client.live('t', { limit: 5 });
    const count = client.count('t');
    await until(() => list.error && count.error);
    console.log(/conditions[.]js/.test(list.error.message), /count[.]js/.test(count.error.message));
    serve('conditions.js');
    serve('count.js');
    await until(() => !list.loading && !count.loading);
    console.log(JSON.stringify(list.rows), count.value, list.error, count.error);`);
  assert.equal(run('node', ['conditions/page.js']), 'true true\n[{"id":1}] 7 undefined undefined\n');
});

test('a list without snapshots imports timed_rows.js again, and a client imports streams.js again', () => {
  writePage('parts', `
    serve('rows.js');
    const list = client.live('t', { key: 'id', load: () => [{ id: 3 }] });
    await until(() => list.error);
    console.log(/timed_rows[.]js/.test(list.error.message));
    serve('timed_rows.js');
    await until(() => !list.loading);
    console.log(JSON.stringify(list.rows));
    const other = connect({ url: 'ws://127.0.0.1:1', token: 'T', transports: ['poll'], backoff: { base: 1, cap: 1 },
      fetch: onePoll() });
    const reasons = [];
    other.on('state', ({ reason }) => reason && reasons.push(reason));
    await until(() => reasons.length);
    console.log(/streams[.]js/.test(reasons[0]));
    serve('streams.js');
    await until(() => other.state === 'open');
    other.close();`);
  assert.equal(run('node', ['parts/page.js']), 'true\n[{"id":3}]\ntrue\n');
});

test('the CommonJS files need no import(), which Jest does not support', () => {
  // As in Jest: code of vm.Script without a callback for import().
  write('jest.cjs', `
    const { readFileSync } = require('node:fs');
    const { Script } = require('node:vm');
    const load = (path) => {
      const module = { exports: {} };
      const code = readFileSync(\`${join(root, 'dist')}/\${path}\`, 'utf8');
      new Script(\`(function (module, exports, require) {\${code}\\n})\`).runInThisContext()(module, module.exports, load);
      return module.exports;
    };
    ${ONE_POLL}
    const client = load('index.cjs').connect({ url: 'ws://127.0.0.1:1', token: 'T', transports: ['poll'], fetch: onePoll() });
    const list = client.live('t', { key: 'id', load: () => [{ id: 3 }] });
    list.subscribe((rows) => {
      if (!rows.length) return;
      console.log(client.state, JSON.stringify(rows));
      client.close();
      process.exit();
    });`);
  assert.equal(run('node', ['jest.cjs']), 'open [{"id":3}]\n');
});

test('on a server the React components render without a connection', {
  skip: !existsSync(join(REACT_HOME, 'react-dom/server.js')) && 'React (node-react-dom) is not installed',
}, () => {
  const page = `
    const { ClaironProvider, ...hooks } = require(${JSON.stringify(join(root, 'dist/react.cjs'))});
    const { createElement: h } = require('react');
    function Page() {
      const client = hooks.useClairon();
      hooks.useMessages(client, '*', () => {});
      const { rows, more, loading, error } = hooks.useLiveList(client, 't', { key: 'id' });
      return [client, hooks.useConnectionState(client), rows.length, hooks.useLive(undefined, 't', { key: 'id' }).length,
        more, hooks.useCount(client, 't').value, loading, error].map(String).join();
    }
    const page = h(ClaironProvider, { url: 'ws://127.0.0.1:1', token: 'T' }, h(Page));
    console.log(require('react-dom/server').renderToString(page));`;
  // Not in the application's directory, which has the stub of React.
  const { stdout, stderr } = spawnSync('node', ['-'], {
    cwd: tmpdir(), input: page, encoding: 'utf8', env: { ...process.env, NODE_PATH: REACT_HOME },
  });
  assert.equal(stdout, 'undefined,idle,0,0,false,0,true,undefined\n', stderr);
});

test('a bundler includes one copy of the client for all entries', { skip: skip || (!esbuild && 'npm install has not been run') }, async () => {
  write('page.mjs', `${USES['import.mjs']} console.log(connect, hooks, vue, shardOf, enable);`);
  const { metafile } = await esbuild.build({
    absWorkingDir: app,
    entryPoints: ['page.mjs'],
    bundle: true,
    format: 'esm',
    splitting: true,
    outdir: 'out',
    metafile: true,
    write: false,
  });
  const inputs = Object.keys(metafile.inputs).filter((path) => path.includes('clairon')).sort();
  assert.deepEqual(inputs, ['conditions', 'count', 'index', 'react', 'rows', 'shard', 'streams', 'timed_rows', 'vue', 'webpush'].map((name) => `node_modules/clairon/dist/${name}.js`));
});

for (const [file, resolution] of [['esm.mts', 'node16'], ['cjs.cts', 'node16'], ['old.ts', 'node']]) {
  test(`${file}: the types are found with module resolution ${resolution}`, { skip: skip || (!has('tsc') && 'no TypeScript (tsc) is installed') }, () => {
    write(file, `import { connect, type Client } from 'clairon';
      import { useLiveList } from 'clairon/react';
      import { useLive } from 'clairon/vue';
      import { disable, enable } from 'clairon/webpush';
      const client: Client = connect({ token: 'T' });
      export const loading: boolean = useLiveList(client, 't').loading;
      export const rows: unknown[] = useLive(client, () => 't').rows.value;
      export const ended: Promise<void> = enable(client, { serviceWorker: '/w.js' }).then(() => disable(client));`);
    const module = resolution === 'node' ? 'commonjs' : resolution;
    write('tsconfig.json', JSON.stringify({
      compilerOptions: { noEmit: true, strict: true, target: 'es2022', module, moduleResolution: resolution, types: [] }, files: [file],
    }));
    run('tsc', ['-p', app]);
  });
}

test('the package contains its licence, and its pages link to no file outside the package', { skip }, () => {
  const installed = join(app, 'node_modules/clairon');
  assert.ok(existsSync(join(installed, 'LICENSE')));
  for (const page of ['README.md', 'PROTOCOL.md']) {
    const links = [...readFileSync(join(installed, page), 'utf8').matchAll(/\]\(([^)#]+)/g)].map(([, link]) => link);
    for (const link of links.filter((each) => !/^https?:/.test(each))) {
      assert.ok(!normalize(link).startsWith('..') && existsSync(join(installed, link)), `${page}: ${link}`);
    }
  }
});

/** A client whose lists the page controls: `lists`, and the `log` of their calls. */
const FAKE_CLIENT = `
    const [log, lists] = [[], []];
    const open = (method) => (source, options) => {
      let show = () => {};
      const list = { rows: [], more: false, value: 0, loading: true, error: undefined, close: () => log.push('close'),
        subscribe: (listener) => { show = listener; listener(); },
        loadMore: async (count) => { log.push(\`more \${count}\`); return true; },
        change: (fields) => { Object.assign(list, { loading: false }, fields); show(); } };
      log.push(\`\${method} \${source} \${JSON.stringify(options)}\`);
      lists.push(list);
      return list;
    };
    const client = { live: open('live'), count: open('count') };`;

test('the React hooks open a list again only when their options differ', { skip }, () => {
  write('react.mjs', `import { useCount, useLiveList } from 'clairon/react';
    import { render } from 'react';
    ${FAKE_CLIENT}
    let limit = 2;
    const page = () => render(() => [
      useLiveList(client, 't', { where: { a: [1] }, order: ['-a'], limit }), useCount(client, 't', { where: { a: 1 } }),
    ]);
    page();
    lists[0].change({ rows: [1], more: true });
    lists[1].change({ value: 7 });
    const [{ rows, more, loading, loadMore }, { value }] = page();
    console.log(rows.join(), more, loading, value, await loadMore(3));
    limit = 3;
    page();
    console.log(log.join());`);
  assert.equal(run('node', ['react.mjs']), `1 true false 7 true
live t {"where":{"a":[1]},"order":["-a"],"limit":2},count t {"where":{"a":1}},more 3,close,live t {"where":{"a":[1]},"order":["-a"],"limit":3}
`);
});

test('the Vue composables follow conditions', { skip }, () => {
  write('conditions.mjs', `import { useCount, useLive } from 'clairon/vue';
    import { set, shallowRef, unmount } from 'vue';
    ${FAKE_CLIENT}
    const options = shallowRef({ where: { a: 1 }, limit: 2 });
    const { rows, more, loading, loadMore } = useLive(client, 't', options);
    lists[0].change({ rows: [1], more: true });
    console.log(rows.value.join(), more.value, loading.value, await loadMore());
    set(options, { where: { a: 2 }, limit: 2 });
    unmount();
    const { value } = useCount(() => client, 't', { where: { a: 1 } });
    lists.at(-1).change({ value: 7 });
    console.log(value.value, log.join());`);
  assert.equal(run('node', ['conditions.mjs']), `1 true false true
7 live t {"where":{"a":1},"limit":2},more undefined,close,live t {"where":{"a":2},"limit":2},close,count t {"where":{"a":1}}
`);
});

test('the Vue composable opens a list, follows refs, and closes the list', { skip }, () => {
  write('vue.mjs', `import { useLive } from 'clairon/vue';
      import { disable, enable } from 'clairon/webpush';
    import { set, shallowRef, unmount } from 'vue';
    const log = [];
    const live = (name, options) => {
      let show;
      const list = { rows: [], loading: true, error: undefined, reload: () => log.push('reload'), close: () => log.push(\`close \${name}\`),
        subscribe: (listener) => { show = listener; listener(); },
        load: (rows) => { Object.assign(list, { rows, loading: false }); show(); } };
      log.push(\`open \${name} \${JSON.stringify(options)}\`);
      lists.push(list);
      return list;
    };
    const lists = [];
    const client = shallowRef();
    const source = shallowRef('t');
    const { rows, loading, error, reload } = useLive(client, source, { rule: 'mine' });
    console.log(rows.value.length, loading.value, error.value, reload());
    set(client, { live });
    lists[0].load([1]);
    reload();
    console.log(rows.value.join(), loading.value);
    set(source, 'u');
    console.log(rows.value.join(), loading.value);
    unmount();
    console.log(log.join());`);
  assert.equal(run('node', ['vue.mjs']), `0 true undefined undefined
1 false
 true
open t {"rule":"mine"},reload,close t,open u {"rule":"mine"},close u
`);
});

test('React modules start with the directive "use client"', () => {
  for (const name of ['react.js', 'react.cjs']) {
    assert.match(readFileSync(join(root, 'dist', name), 'utf8'), /^['"]use client['"];/, name);
  }
});

// The README's snippets that sign a token.
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const SIGNING = readme.slice(readme.indexOf('## Signing tokens'), readme.indexOf('## Notifications'));
const snippet = (language) => SIGNING.split(`\`\`\`${language}\n`)[1].split('\n```')[0];
const KEY = 'c2VjcmV0IG9mIDMyIGJ5dGVzIG9yIG1vcmUsIGFzIHRleHQ=';
const SIGNERS = [
  ['node', 'js', 'sign.mjs', '\nconsole.log(token(process.argv[2]));'],
  ['python3', 'python', 'sign.py', '\nimport sys\nprint(token(sys.argv[1]))'],
  ['php', 'php', 'sign.php', '\necho token($argv[1]), "\\n";'],
];

for (const [tool, language, file, call] of SIGNERS) {
  test(`the README's ${language} snippet signs tokens that the relay accepts`, { skip: !has(tool) && `${tool} is not installed` }, () => {
    write('relay.secret', `${KEY}\n`);
    write(file, snippet(language) + call);
    const [head, body, signature] = run(tool, [file, '42']).trim().split('.');
    assert.equal(createHmac('sha256', KEY).update(`${head}.${body}`).digest('base64url'), signature);
    const parsed = [head, body].map((part) => JSON.parse(Buffer.from(part, 'base64url')));
    assert.deepEqual(parsed[0], { alg: 'HS256', typ: 'JWT' });
    assert.equal(parsed[1].sub, '42');
    assert.ok(Number.isInteger(parsed[1].exp) && parsed[1].exp * 1000 > Date.now());
  });
}
