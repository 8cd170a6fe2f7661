// react.d.ts: types of the React provider and hooks.

import type { ReactElement, ReactNode } from 'react';
import type { AnyClient, Client, CountOptions, LiveError, LiveArguments, MessageInfo, Notification, Options } from './index.cjs';

/**
 * One client for all components below. It is replaced when `url` changes. The `token` function of the latest render is
 * used. `key={userId}` creates a new client for another user.
 */
export function ClaironProvider(props: Options & { children?: ReactNode }): ReactElement;

/** The provider's client; undefined until the page has connected, and on a server. */
export function useClairon<Rules = undefined>(): Client<Rules> | undefined;

/** The current rows of a table; a new array after each change. Empty while `client` is undefined. */
export function useLive<Row = Record<string, unknown>>(
  client: AnyClient | undefined,
  source: string,
  options?: LiveArguments<Row>,
): Row[];

/** As useLive(), with `more`, `loading`, `error` and the functions of the list, see LiveRows. */
export function useLiveList<Row = Record<string, unknown>>(
  client: AnyClient | undefined,
  source: string,
  options?: LiveArguments<Row>,
): {
  rows: Row[];
  more: boolean;
  loading: boolean;
  error: LiveError | undefined;
  loadMore: (count?: number) => Promise<boolean>;
  reload: () => Promise<void> | undefined;
};

/** The current number of rows of a table; 0 while `client` is undefined. See LiveCount. */
export function useCount<Row = Record<string, unknown>>(
  client: AnyClient | undefined,
  source: string,
  options?: CountOptions<Row>,
): { value: number; loading: boolean; error: LiveError | undefined; reload: () => Promise<void> | undefined };

/** Calls `handler` for each notification, like `client.on()`: if it rejects, the notification is nacked. */
export function useMessages<Row = Record<string, unknown>>(
  client: AnyClient | undefined,
  name: string,
  handler: (n: Notification<Row>, info: MessageInfo) => unknown,
): void;

/** 'idle' while `client` is undefined. */
export function useConnectionState(client: AnyClient | undefined): Client['state'];
