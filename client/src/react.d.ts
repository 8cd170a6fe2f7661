// react.d.ts: the types of the React hooks.

import type { Client, LiveOptions, Notification } from './index.js';

/** The rows of a table, current; a new array after each change. */
export function useLive<Row = Record<string, unknown>>(
  client: Client,
  source: string,
  options: LiveOptions<Row>,
): Row[];

/** Calls `handler` for each message, as `client.on()` does: one that rejects nacks it. */
export function useMessages<Row = Record<string, unknown>>(
  client: Client,
  name: string,
  handler: (n: Notification<Row>) => unknown,
): void;

export function useConnectionState(client: Client): Client['state'];
