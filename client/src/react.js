// react.js: the client in a React component.

import { useEffect, useRef, useState } from 'react';

const NO_ROWS = [];

/** The rows of a table, current. `options` as those of client.live(). */
export function useLive(client, source, { key, load }) {
  const [rows, setRows] = useState(NO_ROWS);
  const newest = useRef(load); // a function written in the component is another at each render
  newest.current = load;
  const mayLoad = load !== undefined;
  const columns = [key].flat().join('\n');
  useEffect(() => {
    const list = client.live(source, {
      key: columns.split('\n'),
      load: mayLoad ? () => newest.current() : undefined,
    });
    list.subscribe(setRows);
    return () => {
      list.close();
      setRows(NO_ROWS);
    };
  }, [client, source, columns, mayLoad]);
  return rows;
}

/** Calls the newest `handler` for each message, as client.on() does. */
export function useMessages(client, name, handler) {
  const newest = useRef(handler);
  newest.current = handler;
  useEffect(() => {
    const off = client.on(name, (detail) => newest.current(detail));
    return () => { off(); };
  }, [client, name]);
}

/** What the connection does: 'connecting', 'open', 'waiting' or 'closed'. */
export function useConnectionState(client) {
  const [state, setState] = useState(client.state);
  useEffect(() => {
    setState(client.state);
    const off = client.on('state', (change) => setState(change.state));
    return () => { off(); };
  }, [client]);
  return state;
}
