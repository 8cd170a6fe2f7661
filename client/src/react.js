// react.js: provider and hooks for React.

'use client';

import { createContext, createElement, useContext, useEffect, useRef, useState } from 'react';
import { connect } from './index.js';

const Context = createContext(undefined);
const NOTHING = { rows: [], more: false, value: 0, loading: true, error: undefined };

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

/** Opens client[method](source, options) while the component is mounted, and again when the options change. */
function useList(method, client, source, { load, ...options } = {}) {
  const [current, setCurrent] = useState(NOTHING);
  const newest = useRef(load); // an inline function differs at each render
  newest.current = load;
  const list = useRef();
  const mayLoad = load !== undefined;
  const text = JSON.stringify(options); // inline objects differ too
  useEffect(() => {
    if (!client) return undefined;
    const opened = client[method](source, { ...JSON.parse(text), load: mayLoad ? () => newest.current() : undefined });
    list.current = opened;
    opened.subscribe(() => {
      const { rows, more, value, loading, error } = opened;
      setCurrent({ rows, more, value, loading, error });
    });
    return () => {
      opened.close();
      list.current = undefined;
      setCurrent(NOTHING);
    };
  }, [method, client, source, text, mayLoad]);
  return [current, list];
}

/** Returns the current rows of a table, whether they are being loaded, and the error of the last load. */
export function useLiveList(client, source, options) {
  const [{ rows, more, loading, error }, list] = useList('live', client, source, options);
  return {
    rows,
    more,
    loading,
    error,
    loadMore: async (count) => list.current?.loadMore(count) ?? false,
    reload: () => list.current?.reload(),
  };
}

/** Returns the current number of rows of a table, see count(). */
export function useCount(client, source, options) {
  const [{ value, loading, error }, list] = useList('count', client, source, options);
  return { value, loading, error, reload: () => list.current?.reload() };
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
