// index.d.ts: types of the client and of notifications.

export type Priority = 'HIGH' | 'NORMAL' | 'LOW';
export type MessageType = 'REALTIME' | 'NOTIFICATION' | 'SYSTEM';
export type Operation = 'create' | 'update' | 'delete' | 'truncate' | 'notify';

/** One notification; `Row` is the shape of the table's rows as JSON. */
export interface Notification<Row = Record<string, unknown>> {
  metadata: {
    id: string;
    priority: Priority;
    type: MessageType;
    /** Originator of the notification. */
    emitter: string;
    /** Table, or `schema.table` outside of schema public. */
    source: string;
    topic: string;
    operation: Operation;
    /** Commit time, UTC, with microseconds. */
    timestamp: string;
    expiration?: string;
    /** W3C trace context, if the notification was sent with one. */
    traceparent?: string;
  };
  /** The old and new row of a change, or the object passed to `clairon.notify`. */
  payload: {
    before?: Partial<Row> | null;
    after?: Row | null;
    /** Columns with unchanged large values, which `after` omits. */
    unchanged?: string[];
    /** Names of the changed columns, if the table has REPLICA IDENTITY FULL. */
    changed?: string[];
    /** Columns that are null because their value is too large. */
    truncated?: string[];
    /** Columns that are null because PostgreSQL could not output their value. */
    undecodable?: string[];
    [key: string]: unknown;
  };
  routing: {
    /** A list of more than 100 targets is empty, and `recipients` is their number. */
    audience: { type: string; targets: string[]; recipients?: number };
    retry: {
      ack_required: boolean;
      enabled: boolean;
      /** Number of this delivery: 0 for the first one, then 1 for the first retry. */
      attempts: number;
      limit: number;
      backoff: 'EXPONENTIAL' | 'LINEAR' | 'FIXED';
    };
  };
}

/** The part of the WebSocket interface that the client uses. */
export interface SocketLike {
  send(text: string): void;
  close(code?: number): void;
  /* The event types differ between implementations. */
  onopen: any;
  onmessage: any;
  onclose: any;
  onerror: any;
}

export interface Options {
  /** ws(s):// or http(s)://, or a path that starts with `/`; a bare origin gets `/v1/ws`. Default: `/v1/ws` of the page's origin. */
  url?: string | URL;
  /** A JWT, or a function that returns a fresh JWT within 30 s, called at each connect and before the token expires. */
  token: string | (() => string | Promise<string>);
  /** Cursor (how far a client has read) to resume from, for example a saved `client.pos`; overrides `storage`. */
  pos?: string;
  /** Maximum unacknowledged notifications; the relay may grant fewer. */
  window?: number;
  /** Topics to receive (exact, or a prefix with `*` at its end). Default: all notifications of the user. */
  topics?: string | readonly string[];
  /** 'auto' (default): ack when every handler has resolved, nack when one failed. 'manual': your code calls ack(). */
  ack?: 'auto' | 'manual';
  /** Key in sessionStorage for the cursor, so that a reloaded page resumes. Use one key per user. */
  storage?: string;
  /** Number of ids kept to drop duplicates, separately for notifications with and without an ack. Default 4096. */
  dedupe?: number;
  /** Milliseconds. Defaults: base 500, cap 30000. */
  backoff?: { base?: number; cap?: number; random?: () => number };
  /**
   * Allowed transports, the best first; the client falls back to the next one after two failures: attempts without a
   * connection, and connections that end within 5 s or in silence. Default: 'ws', 'sse', 'poll'.
   */
  transports?: readonly ('ws' | 'sse' | 'poll')[];
  /**
   * True (default): all tabs of one user share one connection, if the browser has Web Locks. The
   * user is the `sub` of the token. A notification is delivered to each tab and acknowledged once.
   */
  tabs?: boolean;
  /** For Node before 22, for example the class of the package `ws`, and for tests. */
  WebSocket?: new (url: string, protocol: string) => SocketLike;
  /** A replacement for the global `fetch`. */
  fetch?: typeof fetch;
  /** A replacement for `Date.now`, for tests. */
  now?: () => number;
}

export interface StateChange {
  state: 'connecting' | 'open' | 'waiting' | 'closed';
  /** Transport in use, or of the current attempt. */
  transport: 'ws' | 'sse' | 'poll';
  /** With `open`. */
  user?: string;
  conn?: string;
  /** False if the relay could not resume from the client's cursor. */
  resumed?: boolean;
  /** Optional frames that the relay supports. */
  features?: string[];
  /** With `waiting` and `closed`: the close code, or a code of the client. */
  code?: number | string;
  reason?: string;
  /** With `waiting`: milliseconds until the next attempt. */
  retryIn?: number;
}

export interface Events {
  /**
   * Emitted for every notification before its handlers are called, and again after a handler failed. A listener does
   * not affect acknowledgement.
   */
  message: Notification;
  /** A duplicate. Handlers receive it only if the notification was not handled the first time. */
  repeat: Notification;
  /** Notifications were lost for this user: reload the displayed data. */
  gap: { from?: string; to?: string; why: 'trimmed' | 'expired' | 'epoch' | 'shed' };
  state: StateChange;
  /** Another tab or device of this user acknowledged these notifications. */
  acked: { ids: string[] };
  /** Logged to the console if there is no listener. */
  error: {
    /** `after`: with code 111, the milliseconds to wait. */
    error: Error & { code?: number | string; retry?: boolean; after?: number };
    notification?: Notification;
  };
}

type Key<Row> = (keyof Row & string) | readonly (keyof Row & string)[];

/** The result of load(): the rows, and `clairon.snapshot()` of the statement that read them. */
export interface Loaded<Row> {
  rows: Row[];
  snapshot: string;
}

/** A value of a column in a condition; of array and composite columns as a text. */
type ValueOf<Column> = unknown extends Column ? string | number | boolean
  : Column extends string | number | boolean ? Column
    : Column extends null | undefined ? never : string;

/** Equal to a value, to one of a list, null, or in a range: at least `from`, and less than `to`. */
export type Condition<Column> =
  | ValueOf<Column>
  | (null extends Column ? null : never)
  | readonly (ValueOf<Column> | (null extends Column ? null : never))[]
  | { from: ValueOf<Column>; to?: ValueOf<Column> }
  | { from?: undefined; to: ValueOf<Column> };

/** The row type is not inferred from a parameter of this type. */
type Fixed<Row> = [Row][Row extends unknown ? 0 : never];

/** A row must meet all conditions. The rule must list the columns in `filter_columns`. */
export type Where<Row> = { readonly [Column in ColumnOf<Row>]?: Condition<Row[Column]> };

type ColumnOf<Row> = keyof Row & string;

/** Columns, with `-` in front for a descending order. */
export type Order<Row> = readonly (ColumnOf<Row> | `-${ColumnOf<Row>}`)[];

export interface CountOptions<Row> {
  /** Name of the live rule. Default: `default`. */
  rule?: string;
  /** Conditions on the rows. */
  where?: Where<Fixed<Row>>;
}

export interface LiveOptions<Row> {
  /** Name of the live rule. Default: `default`; with `load`, changes of all rules are applied. */
  rule?: string;
  /** Conditions on the rows; not with `load`. */
  where?: Where<Fixed<Row>>;
  /** The order of the rows, by columns of `filter_columns` and of the key; not with `load`. */
  order?: Order<Fixed<Row>>;
  /** Maximum number of rows, see `loadMore()`; not with `load`. */
  limit?: number;
  /**
   * Loads all current rows instead of the live rule. The list calls it at the start and after lost or incomplete
   * notifications, and calls it again if it fails. If it returns only an array, without a snapshot, the list compares
   * commit times to find the changes that the rows do not contain yet.
   */
  load?: () => Loaded<Row> | Row[] | Promise<Loaded<Row> | Row[]>;
  /**
   * The column or columns that identify a row; required with `load`. Without `load`: if there is no live rule, the list
   * starts empty and applies all changes of the table.
   */
  key?: Key<Row>;
}

/** With load(), the key is required, and there are no conditions. */
export type LiveArguments<Row> = LiveOptions<Row>
  & ({ load?: undefined } | { key: Key<Row>; where?: undefined; order?: undefined; limit?: undefined });

type LoadOptions<Row> = Required<Pick<LiveOptions<Row>, 'load' | 'key'>> & Pick<LiveOptions<Row>, 'rule'>;

/** `code`: error code of the relay, for example 103 (not addressed, or no such live rule) 111 (busy, or no reply of the database) or 113 (too many rows). */
export type LiveError = Error & { code?: number | string };

/** A list of rows that follows the changes of a table. It is also a Svelte store. */
export interface LiveRows<Row> {
  /** A new array after each change. */
  readonly rows: Row[];
  /** True until the rows have been loaded once, or the relay has rejected the request, or the client is closed. */
  readonly loading: boolean;
  /**
   * Error of the last load, or the reason why the client is closed; undefined after a success. 111 only if the relay
   * was busy for more than a moment.
   */
  readonly error: LiveError | undefined;
  /**
   * Calls the listener immediately, then after changes, at most once per tick. Returns a function that removes the
   * listener.
   */
  subscribe(listener: (rows: Row[]) => void): () => void;
  /** True if more rows than the limit match. It may still be true after the last of these other rows was deleted. */
  readonly more: boolean;
  /**
   * Shows `count` more rows; default: the limit. Resolves with `more`. Rejects if the relay rejects the number of rows,
   * or the whole list.
   */
  loadMore(count?: number): Promise<boolean>;
  /** Loads the rows now. */
  reload(): Promise<void>;
  /** Closes the list. */
  close(): void;
}

/** The number of rows, which follows the changes of a table. It is also a Svelte store. */
export interface LiveCount {
  /** 0 until it is loaded. */
  readonly value: number;
  /** As in LiveRows. */
  readonly loading: boolean;
  readonly error: LiveError | undefined;
  /** Calls the listener immediately, then after changes. Returns a function that removes the listener. */
  subscribe(listener: (value: number) => void): () => void;
  /** Loads the number now. */
  reload(): Promise<void>;
  /** Closes the count. */
  close(): void;
}

/** Details of a delivery. */
export interface MessageInfo {
  /** Id of the transaction, 64 bits in decimal; undefined for a notification that was published over HTTP. */
  x?: string;
  /** Name of the rule, if it is live. */
  rule?: string;
}

/** An entry of `Rules`, which `clairon types` prints. */
export interface RuleTypes {
  row: object;
  /** Columns of `filter_columns`; never without them. */
  filters: string;
  /** Columns of the key. */
  key: string;
}

/** The name of a rule in `Rules`: `source`, or `source/rule`. */
type RuleName<Source extends string, Rule extends string> = Rule extends 'default' ? Source : `${Source}/${Rule}`;

/** The sources in `Rules`. */
type SourceOf<Rules> = keyof Rules extends infer Name
  ? Name extends `${infer Source}/${string}` ? Source : Name & string
  : never;

/** The names of the rules of `Source` in `Rules`. */
type RuleOf<Rules, Source extends string> = keyof Rules extends infer Name
  ? Name extends Source ? 'default' : Name extends `${Source}/${infer Rule}` ? Rule : never
  : never;

type TypesOf<Rules, Source extends string, Rule extends string> = RuleName<Source, Rule> extends infer Name
  ? Name extends keyof Rules ? Rules[Name] extends RuleTypes ? Rules[Name] : never : never
  : never;

/** The row of a rule in `Rules`. */
export type RowOf<Rules, Source extends string, Rule extends string = 'default'> = TypesOf<Rules, Source, Rule>['row'];

type Columns<Row, Name> = Pick<Row, Name & keyof Row>;

/** Options of live() and count() of connect<Rules>(). */
type TypedCount<Types extends RuleTypes, Rule> = {
  /** Name of the live rule. Default: `default`. */
  rule?: Rule;
  /** Conditions on the rows, by columns of `filter_columns`. */
  where?: [Types['filters']] extends [never] ? undefined : Where<Columns<Types['row'], Types['filters']>>;
};

type TypedLive<Types extends RuleTypes, Rule> = TypedCount<Types, Rule> & {
  /** The order of the rows, by columns of `filter_columns` and of the key. */
  order?: Order<Columns<Types['row'], Types['filters'] | Types['key']>>;
  /** Maximum number of rows, see `loadMore()`. */
  limit?: number;
  key?: Key<Types['row']>;
};

/** A source, unless it has no rule of this name. */
type Known<Rules, Source extends string, Rule extends string> =
  Source & (RuleName<Source, Rule> extends keyof Rules ? unknown : never);

/** live() and count() of connect(). */
interface Lists {
  /** The rows of a live rule of `source`, kept up to date by its notifications. */
  live<Row = Record<string, unknown>>(source: string, options?: LiveArguments<Row>): LiveRows<Row>;
  /** The number of rows of a live rule of `source`, without the rows. */
  count<Row = Record<string, unknown>>(source: string, options?: CountOptions<Row>): LiveCount;
}

/** live() and count() of connect<Rules>(). */
interface TypedLists<Rules> {
  /** The rows of a live rule of `source`, kept up to date by its notifications. */
  live<Source extends SourceOf<Rules>, Rule extends RuleOf<Rules, Source> | 'default' = 'default'>(
    source: Known<Rules, Source, Rule>,
    options?: TypedLive<TypesOf<Rules, Source, Rule>, Rule> & { load?: undefined },
  ): LiveRows<RowOf<Rules, Source, Rule>>;
  /** The rows of load(), kept up to date by the notifications of `source`, whose rules do not have to be live. */
  live<Row = Record<string, unknown>>(source: string, options: LoadOptions<Row>): LiveRows<Row>;
  /** The number of rows of a live rule of `source`, without the rows. */
  count<Source extends SourceOf<Rules>, Rule extends RuleOf<Rules, Source> | 'default' = 'default'>(
    source: Known<Rules, Source, Rule>,
    options?: TypedCount<TypesOf<Rules, Source, Rule>, Rule>,
  ): LiveCount;
}

export type Client<Rules = undefined> = BaseClient & (Rules extends undefined ? Lists : TypedLists<Rules>);

/** A client with or without `Rules`. */
export type AnyClient = BaseClient & (Lists | TypedLists<any>);

interface BaseClient {
  readonly state: 'idle' | 'connecting' | 'open' | 'waiting' | 'closed';
  /** Cursor up to which all notifications have been handled; null before the first connection. */
  readonly pos: string | null;
  /** Transport in use, or of the last attempt. */
  readonly transport: 'ws' | 'sse' | 'poll' | undefined;
  on<E extends keyof Events>(event: E, listener: (detail: Events[E]) => void): () => void;
  /**
   * `name`: a topic, a source (table), a type, '*', or one of them with a trailing `*`. A table with the
   * name of an event needs a prefix: `source:message`. If a handler throws or rejects and the notification
   * needs an ack, the client requests a retry (nack); `error.retryAfter` is its minimum delay in ms.
   * Returns a function that removes the handler.
   */
  on<Row = Record<string, unknown>>(
    name: string,
    handler: (n: Notification<Row>, info: MessageInfo) => unknown,
  ): () => void;
  /**
   * Resolves when all live lists show this transaction, also if it sent this user nothing. `xid`: the result of
   * `pg_current_xact_id()` in the transaction. Rejects with an error whose `code` is `rolledback`, `timeout` (after
   * `timeout` ms, default 30000) or `closed`, or the code of an error of the relay.
   */
  seen(xid: string | number | bigint, options?: { timeout?: number }): Promise<void>;
  /** Acknowledges notifications, by `metadata.id`. */
  ack(ids: string | readonly string[]): void;
  /** Requests a retry after at least `delay` ms. */
  nack(ids: string | readonly string[], options?: { delay?: number }): void;
  /** Restricts delivery to these and all previously subscribed topics. Throws a TypeError for invalid topics. */
  subscribe(topics: string | readonly string[]): void;
  /** Removes topics, written as they were subscribed. After the last topic is removed, all notifications are delivered again. */
  unsubscribe(topics: string | readonly string[]): void;
  /** Closes the connection. The client cannot be used again. */
  close(): void;
}

/** `Rules`: the interface of that name in the module that `clairon types` prints; optional. */
export function connect<Rules = undefined>(options: Options): Client<Rules>;
