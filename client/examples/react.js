// react.js: the live list as a React component. With a bundler this is all; JSX works as well.

import { createElement as h, useEffect, useState } from 'react';
import { connect } from 'clairon';
import { useConnectionState, useLive } from 'clairon/react';

function Assignments({ client, load }) {
  const rows = useLive(client, 'assignments', { key: 'id', load });
  const state = useConnectionState(client);
  return h('section', { 'data-state': state },
    h('ul', null, rows.map((row) => h('li', { key: row.id }, `${row.title}: ${row.status}`))));
}

/** One client for the whole application. `token` is the same function at each render. */
export function App({ url, token, load }) {
  const [client, setClient] = useState();
  useEffect(() => {
    const opened = connect({ url, token });
    setClient(opened);
    return () => opened.close();
  }, [url, token]);
  return client && h(Assignments, { client, load });
}
