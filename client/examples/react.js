// react.js: a live list as a React component. It needs a bundler; JSX works as well.

import { createElement as h } from 'react';
import { ClaironProvider, useClairon, useConnectionState, useLiveList } from 'clairon/react';

function Assignments() {
  const client = useClairon();
  const state = useConnectionState(client);
  const { rows, loading, error } = useLiveList(client, 'assignments');
  return h('section', { 'data-state': state, 'aria-busy': loading },
    error && h('p', { role: 'alert' }, `cannot load: ${error.message}`),
    h('ul', null, rows.map((row) => h('li', { key: row.id }, `${row.title}: ${row.status}`))));
}

/** One client for all components of the application. */
export function App({ url, token }) {
  return h(ClaironProvider, { url, token }, h(Assignments));
}
