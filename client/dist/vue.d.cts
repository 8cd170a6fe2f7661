// vue.d.ts: types of the Vue composables.

import type { MaybeRefOrGetter, ShallowRef } from 'vue';
import type { AnyClient, CountOptions, LiveError, LiveArguments } from './index.cjs';

/**
 * The rows of a live list as refs. Each argument may be a ref or a getter: a change of client, table, rule or conditions
 * opens a new list. The list is closed with its component.
 */
export function useLive<Row = Record<string, unknown>>(
  client: MaybeRefOrGetter<AnyClient | undefined>,
  source: MaybeRefOrGetter<string>,
  options?: MaybeRefOrGetter<LiveArguments<Row> | undefined>,
): {
  /** A new array after each change. */
  rows: ShallowRef<Row[]>;
  /** True until the rows have been loaded once, or the relay has rejected the request, or the client is closed. */
  loading: ShallowRef<boolean>;
  /** Error of the last load, or the reason why the client is closed; undefined after a success. */
  error: ShallowRef<LiveError | undefined>;
  /** True if more rows than the limit match. */
  more: ShallowRef<boolean>;
  /** Shows more rows; resolves with `more`. */
  loadMore: (count?: number) => Promise<boolean>;
  /** Loads the rows now. */
  reload: () => Promise<void> | undefined;
};

/** The number of rows as a ref, see LiveCount. The arguments are as for useLive(). */
export function useCount<Row = Record<string, unknown>>(
  client: MaybeRefOrGetter<AnyClient | undefined>,
  source: MaybeRefOrGetter<string>,
  options?: MaybeRefOrGetter<CountOptions<Row> | undefined>,
): {
  value: ShallowRef<number>;
  loading: ShallowRef<boolean>;
  error: ShallowRef<LiveError | undefined>;
  reload: () => Promise<void> | undefined;
};
