// vue.d.ts: the types of Vue that the tests need; Vue itself is not installed.

export interface ShallowRef<T> {
  value: T;
}

export type MaybeRefOrGetter<T> = T | ShallowRef<T> | (() => T);
