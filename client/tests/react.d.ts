// react.d.ts: the types of React that the tests need; React itself is not installed.

export interface ReactElement {
  type: unknown;
}

export type ReactNode = ReactElement | string | number | Iterable<ReactNode> | null | undefined;
