// react.js: the live list as a React component. With a bundler this is all; JSX works as well.

import { createElement as h, useMemo } from 'react';
import { connect } from 'clairon';
import { useConnectionState, useLive } from 'clairon/react';

function Assignments({ client, load }) {
  const rows = useLive(client, 'assignments', { key: 'id', load });
  const state = useConnectionState(client);
  return h('section', { 'data-state': state },
    h('ul', null, rows.map((row) => h('li', { key: row.id }, `${row.title}: ${row.status}`))));
}

/** One client for the whole application, made once. */
export function App({ url, token, load }) {
  const client = useMemo(() => connect({ url, token }), [url, token]);
  return h(Assignments, { client, load });
}
