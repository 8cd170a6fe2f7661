// parts.test.js: modules that need no connection.

import assert from 'node:assert/strict';
import test from 'node:test';
import { createBackoff } from '../src/backoff.js';
import { NOW, STOP, closeClass } from '../src/closing.js';
import { createDedupe } from '../src/dedupe.js';
import { createStored } from '../src/cursor.js';
import { createSendQueue } from '../src/send_queue.js';
import { createCursor } from '../src/cursor.js';
import { createReplayBuffer } from '../src/replay.js';
import { refreshDelay } from '../src/token.js';
import { createRing } from '../src/ring.js';
import { createRouter, matcher } from '../src/router.js';
import { shardOf, shardUrl } from '../src/shard.js';
import { contains, isOlder, parseSnapshot } from '../src/snapshot.js';
import { openStream } from '../src/streams.js';
import { notification, until } from './fake-relay.js';

test('client and relay compute the same shard for a user', () => {
  assert.deepEqual(['u1', 'alice@example.org', 'Zoë', ''].map((user) => shardOf(user, 16)), [3, 5, 11, 3]);
  assert.deepEqual(['foobar', 'foobar'].map((user, i) => shardOf(user, i + 1)), [0, 1]);
  assert.throws(() => shardOf('u1', 0), /shards: 0 must be/);
  assert.equal(shardUrl('/v1/ws', 'u1', 16), '/v1/ws?shard=3');
  assert.equal(shardUrl('wss://example.org/v1/ws?a=b', 'u1', 16), 'wss://example.org/v1/ws?a=b&shard=3');
});

test('the delay is random below a ceiling that doubles up to the cap', () => {
  const highest = createBackoff({ base: 100, cap: 1000, random: () => 1 });
  assert.deepEqual([1, 2, 3, 4, 5, 6].map(() => highest.nextWait()), [100, 200, 400, 800, 1000, 1000]);
  highest.reset();
  assert.equal(highest.nextWait(), 100);
  assert.equal(createBackoff({ random: () => 0 }).nextWait(), 0);
});

test('the delay equals the cap after thousands of failures', () => {
  const b = createBackoff({ cap: 30_000, random: () => 1 });
  for (let i = 0; i < 2000; i += 1) b.nextWait();
  assert.equal(b.nextWait(), 30_000);
});

test('close codes are classified as stop, back off and immediate', () => {
  for (const code of [4000, 4001, 4002, 4003, 4004]) assert.equal(closeClass(code), STOP);
  for (const code of [4100, 4101, 4102, 4103, 1006, 1001, 1009, 'silent']) {
    assert.equal([STOP, NOW].includes(closeClass(code)), false);
  }
  for (const code of [4200, 4201]) assert.equal(closeClass(code), NOW);
});

test('a stored id is a duplicate, and the least recently seen ids are evicted first', () => {
  const d = createDedupe(2);
  assert.equal(d.remember('a'), undefined);
  assert.notEqual(d.remember('a'), undefined);
  d.remember('b');
  d.remember('a'); // seen more recently than b
  d.remember('c');
  assert.notEqual(d.remember('a'), undefined);
  assert.equal(d.remember('b'), undefined);
});

test('an acked id counts as acked until it is evicted', () => {
  const d = createDedupe();
  d.remember('a');
  assert.ok(!d.isAcked('a'));
  d.markAcked(['a']);
  d.remember('a');
  assert.equal(d.isAcked('a'), true);
  d.forget('a');
  assert.equal(d.remember('a'), undefined);
  d.markAcked(['never seen']);
  assert.equal(d.remember('never seen'), undefined);
});

const onTheWire = (frame) => JSON.parse(JSON.stringify(frame));

test('the acks of one tick are one frame, and nacks one per delay', async () => {
  const sent = [];
  const sendQueue = createSendQueue((f) => sent.push(onTheWire(f)) > 0);
  sendQueue.sendAck('a');
  sendQueue.sendAck('b');
  sendQueue.sendAck('a');
  sendQueue.sendNack('c', 500);
  sendQueue.sendNack('d');
  sendQueue.sendNack('e', -1); // negative: the relay accepts integers from 0
  sendQueue.sendNack('f', 499.6);
  assert.deepEqual(sent, []);
  await until('the frames', () => sent.length >= 3);
  assert.deepEqual(sent, [
    { t: 'ack', ids: ['a', 'b'] },
    { t: 'nack', ids: ['c', 'f'], delay: 500 },
    { t: 'nack', ids: ['d', 'e'], delay: 0 },
  ]);
});

test('acks are queued while disconnected and sent once', () => {
  const sent = [];
  let open = false;
  const sendQueue = createSendQueue((f) => open && sent.push(onTheWire(f)) > 0);
  sendQueue.sendAck('a');
  sendQueue.sendAck('b');
  sendQueue.flush();
  assert.deepEqual(sent, []);
  open = true;
  sendQueue.flush();
  sendQueue.flush();
  assert.deepEqual(sent, [{ t: 'ack', ids: ['a', 'b'] }]);
});

test('many acks are split into frames below the size limit', () => {
  const sent = [];
  const sendQueue = createSendQueue((f) => sent.push(f) > 0);
  for (let i = 0; i < 1201; i += 1) sendQueue.sendAck(`00000000-0000-0000-0000-${String(i).padStart(12, '0')}`);
  sendQueue.flush();
  assert.deepEqual(sent.map((f) => f.ids.length), [500, 500, 201]);
  assert.ok(JSON.stringify(sent[0]).length < 64_000);
});

test('the stored cursor never passes a notification that is still being handled', () => {
  let stored = null;
  const kept = (pos) => (pos ? (stored = pos) : stored);
  const p = createCursor(undefined, kept);
  const first = p.arrive('1');
  const second = p.arrive('2');
  const third = p.arrive('3');
  third();
  second();
  assert.equal(p.received(), '3');
  assert.equal(stored, null);
  first();
  assert.equal(stored, '3');
  assert.equal(createCursor(undefined, kept).received(), '3');
  assert.equal(createCursor('9', kept).received(), '9');
});

test('thousands of notifications are handled in any order', () => {
  const p = createCursor();
  const dones = Array.from({ length: 20_000 }, (_, i) => p.arrive(String(i)));
  dones.reverse().forEach((done, i) => {
    if (i < 19_999) assert.equal(p.handled(), undefined);
    done();
  });
  assert.equal(p.handled(), '19999');
});

test('if the browser blocks storage, only the persistence is lost', (t) => {
  const failing = { get sessionStorage() { throw new DOMException('no', 'SecurityError'); } };
  Object.defineProperties(globalThis, Object.getOwnPropertyDescriptors(failing));
  t.after(() => delete globalThis.sessionStorage);
  const p = createCursor(undefined, createStored('sessionStorage', 'k'));
  p.arrive('1')();
  p.arrive('2')();
  assert.equal(p.handled(), '2');
});

test('a token is renewed before it expires, and never in a loop', () => {
  const now = 1_000_000_000;
  const at = (seconds) => refreshDelay(now / 1000 + seconds, now);
  assert.equal(at(3600), 3_570_000);
  assert.equal(at(60), 48_000);
  assert.equal(at(-7200), 10_000); // this page's clock is two hours fast
});

test('handlers are found by source, topic, type, star and prefix', () => {
  const n = notification('a', { source: 'message', type: 'SYSTEM' });
  for (const name of ['message', 'demo.message', 'SYSTEM', '*', 'demo.*', 'source:message', 'type:SYSTEM']) {
    assert.equal(matcher(name)(n), true, name);
  }
  for (const name of ['messages', 'demo', 'topic:message', 'NOTIFICATION']) {
    assert.equal(matcher(name)(n), false, name);
  }
  assert.throws(() => createRouter().on('', () => {}), TypeError);
});

test('a handler can be removed, and a failing listener does not affect other listeners', (t) => {
  t.mock.method(console, 'error', () => {});
  const router = createRouter();
  const seen = [];
  const off = router.on('assignments', () => {});
  router.on('gap', () => { throw new Error('mine'); });
  router.on('gap', (g) => seen.push(g));
  assert.equal(router.handlersFor(notification('a')).length, 1);
  off();
  assert.equal(router.handlersFor(notification('a')).length, 0);
  router.emit('gap', 1);
  assert.deepEqual(seen, [1]);
  assert.equal(console.error.mock.callCount(), 1);
});

test('the replay buffer is limited in size', () => {
  const { remember, since } = createReplayBuffer('0');
  const frame = (pos) => ({ t: 'msg', pos });
  for (const pos of ['1', '2', '3']) remember(frame(pos), 400_000);
  assert.equal(since('0'), undefined);
  assert.deepEqual(since('1'), [frame('2'), frame('3')]);
  assert.deepEqual(since('3'), []);
  assert.equal(since('4'), undefined);
});

test('a snapshot contains the transactions below xmin, and the transactions below xmax that are not in its list', () => {
  const snapshot = parseSnapshot('7421:7430:7424,7426');
  const ids = ['1', '7420', '7421', '7424', '7425', '7426', '7429', '7430', '18446744073709551615'];
  assert.deepEqual(ids.filter((x) => contains(snapshot, x)), ['1', '7420', '7421', '7425', '7429']);
  assert.equal(contains(parseSnapshot('18446744073709551614:18446744073709551615:'), '18446744073709551613'), true);
  assert.equal(contains(parseSnapshot('18446744073709551614:18446744073709551615:'), '18446744073709551615'), false);
});

test('only strings in the format of clairon.snapshot() are snapshots', () => {
  for (const text of ['', '1', '1:1', '1:1:1:1', 'x:1:', '-1:1:', '1:1: ', undefined, null, 7, {}]) {
    assert.equal(parseSnapshot(text), undefined, String(text));
  }
});

test('a snapshot is older if and only if the other snapshot contains a transaction that it lacks', () => {
  const older = [['10:10:', '11:11:'], ['10:12:10', '12:12:'], ['10:12:10', '11:12:11'], ['11:12:11', '10:12:10'], ['10:11:10', '10:15:10']];
  for (const [a, b] of older) assert.equal(isOlder(parseSnapshot(a), parseSnapshot(b)), true, `${a} ${b}`);
  const notOlder = [['10:10:', '10:10:'], ['12:12:', '10:12:10'], ['10:10:', '10:12:10,11'], ['15:15:', '10:12:10'], ['10:13:10', '10:15:10,13,14']];
  for (const [a, b] of notOlder) assert.equal(isOlder(parseSnapshot(a), parseSnapshot(b)), false, `${a} ${b}`);
});

test('a ring returns the changes that a snapshot does not contain, unless one of them was evicted', () => {
  const ring = createRing(2);
  const add = (...ids) => ids.forEach((x) => ring.add({ x }));
  const missing = (text) => ring.missingFrom(parseSnapshot(text))?.map(({ x }) => x);
  add('12', '10');
  assert.deepEqual([missing('9:9:'), missing('10:13:10'), missing('13:13:')], [['12', '10'], ['10'], []]);
  add('14');
  assert.deepEqual([missing('9:9:'), missing('10:13:10'), missing('5:13:5'), missing('12:13:12')], [undefined, ['10', '14'], ['14'], undefined]);
  ring.dropContained(parseSnapshot('14:14:'));
  assert.deepEqual(ring.all().map(({ x }) => x), ['14']);
  add('15');
  assert.deepEqual(missing('14:14:'), ['14', '15']);
  for (let x = 20; x < 10_000; x += 1) add(String(x));
  assert.deepEqual([missing('1:10000:1'), missing('1:9998:1'), missing('1:9997:1')], [[], ['9998', '9999'], undefined]);
  assert.equal(missing('1:100:1'), undefined);
});

test('a stream rejects a frame that it cannot send, and is not restarted', async () => {
  const requests = [];
  const frames = [];
  const stream = openStream('sse', (url) => new Promise(() => { requests.push(url.pathname); }), 'ws://relay.test/v1/ws');
  stream.onmessage = ({ data }) => frames.push(JSON.parse(data));
  stream.send('{"t":"connect","r":1,"token":"T"}');
  stream.send('{"t":"later","r":-1}');
  stream.send('{"t":"pong"}');
  assert.deepEqual(requests, ['/v1/sse']);
  assert.deepEqual(frames, [{ t: 'err', r: -1, code: 107, msg: 'later needs a WebSocket' }]);
  stream.close();
});
