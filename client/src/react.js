// react.js: provider and hooks for React.

'use client';

import { createContext, createElement, useContext, useEffect, useRef, useState } from 'react';
import { connect } from './index.js';

const Context = createContext(undefined);
const NOTHING = { rows: [], loading: true, error: undefined };

/**
 * One client for all components below, with the options of connect() as props. The client is replaced when `url`
 * changes. The `token` function of the latest render is used. A client never changes its user: `key={userId}` on the
 * provider creates a new client for another user.
 */
export function ClaironProvider({ children, ...options }) {
  const newest = useRef(options);
  newest.current = options;
  const [client, setClient] = useState();
  useEffect(() => {
    const { token } = newest.current;
    const opened = connect({
      ...newest.current,
      token: typeof token === 'function' ? () => newest.current.token() : token,
    });
    setClient(opened);
    return () => {
      opened.close();
      setClient(undefined);
    };
  }, [`${options.url}`]);
  return createElement(Context.Provider, { value: client }, children);
}

/** Returns the provider's client; undefined until the page has connected, and on a server. */
export const useClairon = () => useContext(Context);

/** Returns the current rows of a table, whether they are being loaded, and the error of the last load. */
export function useLiveList(client, source, { rule, key, load } = {}) {
  const [current, setCurrent] = useState(NOTHING);
  const newest = useRef(load); // an inline function differs at each render
  newest.current = load;
  const list = useRef();
  const mayLoad = load !== undefined;
  const columns = key && [key].flat().join('\n');
  useEffect(() => {
    if (!client) return undefined;
    const opened = client.live(source, {
      rule,
      key: columns?.split('\n'),
      load: mayLoad ? () => newest.current() : undefined,
    });
    list.current = opened;
    opened.subscribe((rows) => setCurrent({ rows, loading: opened.loading, error: opened.error }));
    return () => {
      opened.close();
      list.current = undefined;
      setCurrent(NOTHING);
    };
  }, [client, source, rule, columns, mayLoad]);
  return { ...current, reload: () => list.current?.reload() };
}

/** Returns only the rows of useLiveList(). */
export const useLive = (client, source, options) => useLiveList(client, source, options).rows;

/** Calls the latest `handler` for each notification, like client.on(). */
export function useMessages(client, name, handler) {
  const newest = useRef(handler);
  newest.current = handler;
  useEffect(() => {
    const off = client?.on(name, (detail, ...more) => newest.current(detail, ...more));
    return () => { off?.(); };
  }, [client, name]);
}

/** Returns the connection's state: 'idle', 'connecting', 'open', 'waiting' or 'closed'. */
export function useConnectionState(client) {
  const [state, setState] = useState(client?.state ?? 'idle');
  useEffect(() => {
    setState(client?.state ?? 'idle');
    const off = client?.on('state', (change) => setState(change.state));
    return () => { off?.(); };
  }, [client]);
  return state;
}
