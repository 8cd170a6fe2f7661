// lists.js: the live lists of several clients; prints each state of a list. Appended to the script of
// Clairon::Test::Page, after `const CLIENTS = [{ name, url, token, isStream }, ..];`.

const LISTS = {
  own: ['tasks', undefined, ({ id, owner, teams, is_open, n }) => [id, owner, teams?.join('+'), is_open, n]],
  team: ['tasks', 'team', ({ id, owner, teams, is_open, n }) => [id, owner, teams?.join('+'), is_open, n]],
  open: ['tasks', 'open', ({ id, n }) => [id, n]],
  docs: ['docs', undefined, ({ part, id, n, body }) => [part, id, n, body.length, body.slice(0, 12)]],
};

const textOf = (rows, columns) => rows.map((row) => columns(row).map((value) => value ?? '').join('|')).sort().join(' ');

// The snapshots of replies, which determine the possible states.
function emitSnapshots(text) {
  for (const [, snapshot] of text.matchAll(/"snapshot":"(\d+:\d+:[\d,]*)"/g)) emit({ snapshot });
}

class NotedSocket extends (globalThis.WebSocket ?? NoWebSocket) {
  constructor(...options) {
    super(...options);
    this.addEventListener?.('message', ({ data }) => emitSnapshots(data));
  }
}

async function notedFetch(url, options) {
  const response = await fetch(url, options);
  if (`${url}`.includes('/rows?')) emitSnapshots(await response.clone().text());
  return response;
}

for (const { name, url, token, isStream } of CLIENTS) {
  const its = connect({
    url,
    token,
    transports: [isStream ? 'sse' : 'ws'],
    fetch: notedFetch,
    WebSocket: NotedSocket,
    backoff: { base: 50, cap: 500 },
  });
  its.on('state', ({ state, reason }) => emit({ client: name, connection: state, reason, transport: its.transport }));
  its.on('gap', (gap) => emit({ client: name, gap }));
  its.on('error', ({ error }) => emit({ client: name, error: error.message }));
  for (const [list, [source, rule, columns]] of Object.entries(LISTS)) {
    const live = its.live(source, rule && { rule });
    let published;
    live.subscribe((rows) => {
      const text = live.loading ? undefined : textOf(rows, columns);
      if (text === published) return;
      published = text;
      emit({ client: name, list, text });
    });
  }
}
