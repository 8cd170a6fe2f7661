// vue.d.ts: types of the Vue composable.

import type { MaybeRefOrGetter, ShallowRef } from 'vue';
import type { Client, LiveError, LiveArguments } from './index.js';

/**
 * The rows of a live list as refs. Each argument may be a ref or a getter: a change of client, table or rule opens a
 * new list. The list is closed with its component.
 */
export function useLive<Row = Record<string, unknown>>(
  client: MaybeRefOrGetter<Client | undefined>,
  source: MaybeRefOrGetter<string>,
  options?: MaybeRefOrGetter<LiveArguments<Row> | undefined>,
): {
  /** A new array after each change. */
  rows: ShallowRef<Row[]>;
  /** True until the rows have been loaded once, or the relay has rejected the request, or the client is closed. */
  loading: ShallowRef<boolean>;
  /** Error of the last load, or the reason why the client is closed; undefined after a success. */
  error: ShallowRef<LiveError | undefined>;
  /** Loads the rows now. */
  reload: () => Promise<void> | undefined;
};
