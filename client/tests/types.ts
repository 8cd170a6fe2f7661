// types.ts: valid and invalid uses of the client's types. Only compiled.

import { connect, type Client, type LiveCount, type LiveError, type LiveRows, type Notification, type RowOf } from 'clairon';
import {
  ClaironProvider, useClairon, useConnectionState, useCount, useLive, useLiveList, useMessages,
} from 'clairon/react';
import { useCount as useCountRefs, useLive as useLiveRefs } from 'clairon/vue';
import type { ReactElement } from 'react';

interface Assignment {
  id: number;
  title: string;
  grade: number | null;
}

const client: Client = connect({
  url: new URL('wss://relay.example.org'),
  token: async () => 'jwt',
  topics: ['app.assignments'],
  transports: ['ws', 'poll'],
  tabs: false,
  backoff: { base: 100 },
});
connect({ token: 'jwt', ack: 'manual', storage: 'clairon:u1' });
connect({ token: 'jwt', WebSocket });
const wanted = ['app.assignments', 'app.orders'] as const;
connect({ token: 'jwt', topics: wanted, transports: undefined });
connect({
  token: 'jwt',
  // As in the package `ws`, whose events differ from the browser's.
  WebSocket: class {
    onopen: ((event: { target: object }) => void) | null = null;
    onmessage: ((event: { data: string | Uint8Array[] }) => void) | null = null;
    onclose: ((event: { code: number; reason: string }) => void) | null = null;
    onerror: ((event: { message: string }) => void) | null = null;
    constructor(readonly address: string | URL, readonly protocols?: string | string[]) {}
    send(data: string | Uint8Array, done?: (error?: Error) => void): void { done?.(); }
    close(code?: number, data?: string | Uint8Array): void { void [code, data]; }
  },
});

const off: () => void = client.on<Assignment>('assignments', ({ payload, metadata }) => {
  const title: string | undefined = payload.after?.title;
  const before: number | undefined = payload.before?.id;
  const names: string[] = payload.unchanged ?? [];
  const operation: 'create' | 'update' | 'delete' | 'truncate' | 'notify' = metadata.operation;
  return [title, before, names, operation];
});
client.on('*', async (n) => n.routing.retry.attempts.toFixed());
client.on('gap', ({ why }) => why === 'epoch');
client.on('state', ({ state, retryIn = 0 }) => state === 'open' || retryIn > 0);
client.on('error', ({ error, notification }) => [error.code, notification?.metadata.id]);
client.on('repeat', (n: Notification) => n.metadata.id);
client.ack(['id']);
client.nack('id', { delay: 500 });
client.subscribe('app.*');
client.unsubscribe(wanted);
const cursor: string | null = client.pos;

const list: LiveRows<Assignment> = client.live<Assignment>('assignments', {
  key: 'id',
  load: () => fetch('/assignments').then((response) => response.json()),
});
list.subscribe((rows) => rows.map((row) => row.title.trim()));
const failure: string | undefined = list.error?.message;
const code: number | string | undefined = list.error?.code;
client.live('assignments').subscribe((all) => all.length);
client.live<Assignment>('assignments', { rule: 'mine' }).rows[0]?.grade?.toFixed();
client.live<Assignment>('assignments', { key: 'id', load: async () => ({ rows: [], snapshot: '7421:7430:7424' }) }).close();
client.seen('7424', { timeout: 1000 }).then(() => {});
client.seen(7424n);
client.on('assignments', (n, { x, rule }) => [n, x?.length, rule?.length]);
const busy: boolean = list.loading;
connect({ token: 'jwt', topics: 'app.*' });
client.live<Assignment>('assignments', { key: ['id', 'title'] }).close();

const rows: Assignment[] = useLive<Assignment>(client, 'assignments', { key: 'id' });
useMessages<Assignment>(client, 'assignments', (n) => n.payload.after?.grade);
const element: ReactElement = ClaironProvider({ url: 'wss://relay.example.org', token: () => 'jwt', children: [] });
const { rows: titled, loading, error } = useLiveList<Assignment>(useClairon(), 'assignments', { key: 'id' });
useLive(undefined, 'assignments');
const refs = useLiveRefs<Assignment>(() => client, 'assignments', { rule: 'mine' });
const titles: string[] = refs.rows.value.map(({ title }) => title);
const problem: LiveError | undefined = refs.error.value;
useMessages(undefined, '*', () => {});
const state: 'idle' | 'connecting' | 'open' | 'waiting' | 'closed' = useConnectionState(client);

// Conditions.
interface Task {
  id: number;
  course_id: number | null;
  status: 'draft' | 'done';
  done: boolean;
  large: number | string;
  tags: string[];
  detail: unknown;
}

const firsts: LiveRows<Task> = client.live<Task>('tasks', {
  where: { course_id: [7, null], status: 'done', done: false, large: { from: '9007199254740993' }, id: { from: 1, to: 9 }, tags: '{a}', detail: 1 },
  order: ['-course_id', 'id'],
  limit: 50,
});
const hasMore: Promise<boolean> = firsts.loadMore();
firsts.loadMore(10).then((more: boolean) => more || firsts.more);
client.live('tasks', { where: { course_id: 7, status: null, done: [true] }, order: ['anything'] });
const open: LiveCount = client.count<Task>('tasks', { rule: 'mine', where: { status: ['draft'] } });
open.subscribe((count) => count.toFixed());
client.count('tasks').close();
const { more: others, loadMore } = useLiveList<Task>(client, 'tasks', { where: { status: 'done' }, limit: 5 });
const { value: total }: { value: number } = useCount<Task>(client, 'tasks', { where: { course_id: null } });
const totals: number = useCountRefs<Task>(client, 'tasks').value.value;
useLiveRefs<Task>(client, 'tasks', { limit: 5 }).loadMore().then((more: boolean) => more);

// The module that `clairon types` prints.
interface Rules {
  tasks: { row: Task; filters: 'status' | 'course_id'; key: 'id' };
  'tasks/mine': { row: { id: number; mine: boolean; note: string }; filters: 'mine'; key: 'id' };
  'tasks/all': { row: { id: number; title: string }; filters: never; key: 'id' };
  'app.logs/own': { row: { id: number }; filters: never; key: 'id' };
}
const typed: Client<Rules> = connect<Rules>({ token: 'jwt' });
typed.live('tasks', { where: { status: 'draft' }, order: ['-id'] }).rows[0]?.status.length;
typed.live('tasks').rows[0]?.status.length;
const isMine: boolean | undefined = typed.live('tasks', { rule: 'mine', where: { mine: true }, order: ['-mine', 'id'], limit: 5 }).rows[0]?.mine;
typed.live('tasks', { rule: 'all', order: ['-id'] }).rows[0]?.title.length;
typed.live('app.logs', { rule: 'own' }).rows[0]?.id.toFixed();
typed.count('tasks', { where: { course_id: { from: 7 }, status: ['draft'] } }).value.toFixed();
typed.count('tasks').value.toFixed();
const joined = async () => ({ rows: [{ id: 1, author: 'Ada' }], snapshot: '10:10:' });
typed.live('tasks', { key: 'id', load: joined }).rows[0]?.author.length;
typed.live('other', { key: 'id', load: joined }).rows[0]?.author.length;
typed.live<Task>('tasks', { key: 'id', load: () => fetch('/tasks').then((response) => response.json()) }).rows[0]?.status.length;
const row: RowOf<Rules, 'tasks', 'mine'> = { id: 1, mine: true, note: '' };
useLive<Task>(typed, 'tasks');
useClairon<Rules>()?.live('tasks').rows[0]?.done;

// @ts-expect-error: no such column
client.live<Task>('tasks', { where: { statsu: 'done' } });
// @ts-expect-error: no such value
client.live<Task>('tasks', { where: { status: 'open' } });
// @ts-expect-error: not nullable
client.live<Task>('tasks', { where: { status: null } });
// @ts-expect-error: a range has an end
client.live<Task>('tasks', { where: { id: {} } });
// @ts-expect-error: no such column
client.live<Task>('tasks', { order: ['-statsu'] });
// @ts-expect-error: load() has no conditions
client.live<Task>('tasks', { key: 'id', load: () => [], limit: 5 });
// @ts-expect-error: a count has no limit
client.count<Task>('tasks', { limit: 5 });
// @ts-expect-error: no such column in the rule
typed.live('tasks', { where: { mine: true } });
// @ts-expect-error: not a filter column
typed.live('tasks', { where: { done: true } });
// @ts-expect-error: not a filter column
typed.count('tasks', { rule: 'mine', where: { note: '' } });
// @ts-expect-error: the key is no filter column
typed.live('tasks', { where: { id: 1 } });
// @ts-expect-error: neither a filter column nor the key
typed.live('tasks', { order: ['-done'] });
// @ts-expect-error: the rule has no filter columns
typed.live('tasks', { rule: 'all', where: { title: '' } });
// @ts-expect-error: the rule has no filter columns
typed.live('tasks', { rule: 'all', order: ['title'] });
// @ts-expect-error: no such source
typed.live('other');
// @ts-expect-error: no such source
typed.count('other');
// @ts-expect-error: no such rule
typed.live('tasks', { rule: 'others' });
// @ts-expect-error: no such rule
typed.count('tasks', { rule: 'others' });
// @ts-expect-error: no rule `default`
typed.live('app.logs');
// @ts-expect-error: no rule `default`
typed.count('app.logs');
// @ts-expect-error: no such option
typed.live('tasks', { filter: { status: 'draft' } });
// @ts-expect-error: load() needs a key
typed.live('other', { load: joined });
// @ts-expect-error: load() excludes conditions
typed.live('tasks', { key: 'id', load: joined, limit: 1 });
// @ts-expect-error: no such value in the rule
typed.count('tasks', { where: { status: 'open' } });
// @ts-expect-error: token is required
connect({ url: 'wss://relay.example.org' });
// @ts-expect-error: no such option
connect({ token: 'jwt', tokne: 'jwt' });
// @ts-expect-error: no such transport
connect({ token: 'jwt', transports: ['carrier pigeon'] });
// @ts-expect-error: load() needs a key
client.live('assignments', { load: () => [] });
// @ts-expect-error: load() returns rows
client.live('assignments', { key: 'id', load: () => ({ snapshot: '1:1:' }) });
// @ts-expect-error: not a transaction id
client.seen({});
// @ts-expect-error: no such column
client.live<Assignment>('assignments', { key: 'titel' });
// @ts-expect-error: read-only
client.pos = '1';
// @ts-expect-error: token is required
ClaironProvider({ url: 'wss://relay.example.org' });
// @ts-expect-error: children are React nodes
ClaironProvider({ token: 'jwt', children: { title: 'x' } });
// @ts-expect-error: no such gap reason
client.on('gap', ({ why }) => why === 'bad luck');

export {
  busy, code, element, error, failure, hasMore, isMine, loading, loadMore, off, others, cursor, problem, row, rows, state, titled, titles, total, totals,
};
