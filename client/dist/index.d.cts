// index.d.ts: the types of the client and of what it receives.

export type Priority = 'HIGH' | 'NORMAL' | 'LOW';
export type MessageType = 'REALTIME' | 'NOTIFICATION' | 'SYSTEM';
export type Operation = 'create' | 'update' | 'delete' | 'truncate' | 'notify';

/** One notification; `Row` is the shape of the table's rows as JSON. */
export interface Notification<Row = Record<string, unknown>> {
  metadata: {
    id: string;
    priority: Priority;
    type: MessageType;
    emitter: string;
    source: string;
    topic: string;
    operation: Operation;
    /** Commit time, UTC, with microseconds. */
    timestamp: string;
    expiration?: string;
    /** The W3C trace that it belongs to, if it was sent with one. */
    traceparent?: string;
  };
  /** Of a table: `before` and `after`. Of `clairon.notify`: the object it was given. */
  payload: {
    before?: Partial<Row> | null;
    after?: Row | null;
    /** Large values that the change did not touch and that are therefore not in `after`. */
    unchanged?: string[];
    changed?: string[];
    /** Values that are null here because they are too large for a message. */
    truncated?: string[];
    /** Values that are null here because the server could not print them. */
    undecodable?: string[];
    [key: string]: unknown;
  };
  routing: {
    audience: { type: string; targets: string[] };
    retry: {
      ack_required: boolean;
      enabled: boolean;
      attempts: number;
      limit: number;
      backoff: 'EXPONENTIAL' | 'LINEAR' | 'FIXED';
    };
  };
}

/** As much of a WebSocket as is used. */
export interface SocketLike {
  send(text: string): void;
  close(code?: number): void;
  /* Each kind has events of its own. */
  onopen: any;
  onmessage: any;
  onclose: any;
  onerror: any;
}

export interface Options {
  /** ws(s):// or http(s)://, or a path; a bare origin gets `/v1/ws`. Default: `/v1/ws` of the page's origin. */
  url?: string | URL;
  /** A JWT, or a function that brings a fresh one; it is asked at each connection and before expiry. */
  token: string | (() => string | Promise<string>);
  /** Where to resume; overrides what `storage` holds. */
  pos?: string;
  /** How many unacknowledged messages the relay may send; it may grant less. */
  window?: number;
  /** Only these topics (exact, or with a `*` at their end) are shown. Default: all that is for the user. */
  topics?: string | readonly string[];
  /** 'auto' (default): ack when every handler resolved, nack when one failed. 'manual': call ack(). */
  ack?: 'auto' | 'manual';
  /** Key in sessionStorage that keeps the position across reloads. Use one per user. */
  storage?: string;
  /** How many ids are remembered to recognise repeats: of what must be acked, and of the rest. Default 4096. */
  dedupe?: number;
  /** Milliseconds. Defaults: base 500, cap 30000. */
  backoff?: { base?: number; cap?: number; random?: () => number };
  /** What may be used, the best first. Default: 'ws', 'sse', 'poll'; the next one after two failures. */
  transports?: readonly ('ws' | 'sse' | 'poll')[];
  /**
   * True (default): all tabs of one user share one connection, where the browser has Web Locks. The
   * user is the `sub` of the token. A message is shown in each tab and acked once.
   */
  tabs?: boolean;
  /** For Node before 22, for example that of the package `ws`, and for tests. */
  WebSocket?: new (url: string, protocol: string) => SocketLike;
  fetch?: typeof fetch;
  now?: () => number;
}

export interface StateChange {
  state: 'connecting' | 'open' | 'waiting' | 'closed';
  /** How it is connected, or tried. */
  transport: 'ws' | 'sse' | 'poll';
  /** With `open`. */
  user?: string;
  conn?: string;
  /** False when the relay could not continue from our position. */
  resumed?: boolean;
  /** With `waiting` and `closed`: the close code, or why this side gave up. */
  code?: number | string;
  reason?: string;
  /** With `waiting`: milliseconds until the next try. */
  retryIn?: number;
}

export interface Events {
  /** Every notification once, before its handlers; takes no part in acknowledgement. */
  message: Notification;
  /** A notification that came again; it was not shown again, unless it had no handler. */
  repeat: Notification;
  /** Something was lost for this user: reload what you show. */
  gap: { from?: string; to?: string; why: 'trimmed' | 'expired' | 'epoch' | 'shed' };
  state: StateChange;
  /** Another tab or session of this user acknowledged these. */
  acked: { ids: string[] };
  /** Without a listener these go to the console. */
  error: {
    /** `after`: with code 111, the milliseconds to wait. */
    error: Error & { code?: number | string; retry?: boolean; after?: number };
    notification?: Notification;
  };
}

export interface LiveOptions<Row> {
  /** The column, or the columns, that tell rows apart. */
  key: (keyof Row & string) | readonly (keyof Row & string)[];
  /**
   * Returns all rows as they are in the database now: called at first, and when something was missed
   * or came out of order. Without it the array begins empty. It is retried when it fails.
   */
  load?: () => Row[] | Promise<Row[]>;
}

/** Rows that follow a table; also a Svelte store. */
export interface LiveRows<Row> {
  /** A new array after each change. */
  readonly rows: Row[];
  /** True until `load` has succeeded once. */
  readonly loading: boolean;
  /** Why the last `load` failed; undefined once one has succeeded. It is retried. */
  readonly error: Error | undefined;
  /** Called at once, and after each change, once for all of a tick. Returns the function that removes the listener. */
  subscribe(listener: (rows: Row[]) => void): () => void;
  reload(): Promise<void>;
  close(): void;
}

export interface Client {
  readonly state: 'idle' | 'connecting' | 'open' | 'waiting' | 'closed';
  readonly pos: string | null;
  /** How it is connected, or tried last. */
  readonly transport: 'ws' | 'sse' | 'poll' | undefined;
  on<E extends keyof Events>(event: E, listener: (detail: Events[E]) => void): () => void;
  /**
   * `name`: a topic, a source, a type, '*', or one of them with a trailing `*`. A table whose name
   * is that of an event is reached with a prefix: `source:message`. A handler that throws or
   * rejects nacks the message; `error.retryAfter` is then the shortest wait in ms.
   */
  on<Row = Record<string, unknown>>(
    name: string,
    handler: (n: Notification<Row>) => unknown,
  ): () => void;
  /** An array of `source`'s rows that is kept current by its messages. */
  live<Row = Record<string, unknown>>(source: string, options: LiveOptions<Row>): LiveRows<Row>;
  ack(ids: string | readonly string[]): void;
  /** Shows the message again, `delay` ms from now at the earliest. */
  nack(ids: string | readonly string[], options?: { delay?: number }): void;
  /** Narrows what is shown to these topics and those subscribed before. */
  subscribe(topics: string | readonly string[]): void;
  /** As they were subscribed. After the last one everything is shown again. */
  unsubscribe(topics: string | readonly string[]): void;
  close(): void;
}

export function connect(options: Options): Client;
