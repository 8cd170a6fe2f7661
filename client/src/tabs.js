// tabs.js: one connection for all tabs of one user. The leader owns the connection, and forwards frames to the
// followers.
//
// Messages on the channel, each with the sender `from`, and with `leads` if the sender is a leader:
//   topics     to the leader: the follower's `topics`
//   hello      to the leader: `topics`, and a request for the notifications since `pos` (undefined: new tab)
//   open       to all: the sender is the leader now
//   connected  to one: the reply to hello
//   closed     to one: connect alone, because all tabs have more topics than a connection may have
//   frames     to all except `from`, or `to` one: frames from the relay, and `pos`, the cursor before them
//   state      to all: the state of the connection
//   send       to the leader: send this ack, nack or request of a live list
//   ping       to the leader: check that it responds; `pong`: the reply
//   wake       to the leader: reconnect without waiting
//
// Each tab holds a lock while it lives, so that the leader drops the topics of a tab that leaves or crashes.

import { createConnection } from './connection.js';
import { createLeadership } from './leadership.js';
import { topicsOf } from './options.js';
import { createReplayBuffer } from './replay.js';
import { isVisible } from './wake.js';

const PING_MS = 5_000;
const WAKE_DELAY_MS = 1_000;
const MAX_UNANSWERED = 3; // unanswered pings after which another tab becomes the leader
const MAX_PENDING = 1_000;

/**
 * Returns an object with the interface of a connection. `name`: common to all tabs of one user. `owner`: as for a
 * connection, and isAcked(id). `settings`: as for a connection.
 */
export function createTabs(name, settings, owner, connectAlone) {
  const id = Math.random();
  const connection = createConnection(settings, {
    ...owner,
    wanted: allTopics,
    onFrame: publish,
    onState: changed,
  });
  const leadership = createLeadership(name, startLeading, startFollowing);
  const presence = createLeadership(name + id, startFollowing); // the lock of this tab
  const life = new AbortController(); // has a `signal`, so it can be the options of a listener
  let channel; // undefined: this tab has left, and cannot lead
  let leads = false;
  let firstToken; // fetched to determine `name`; used for the first connect
  let change = { state: 'connecting' }; // last reported state
  let unanswered = 0;
  let timer;
  let wakeTimer;
  // State of the leader:
  const others = new Map(); // tab -> its topics
  const pending = new Map(); // id -> frame of an unacknowledged notification
  let replay;
  let subscribed; // topics of the connection; undefined: all, or not yet known
  let batch; // frames that arrived together and are forwarded together, and the cursor before them
  const askers = new Map(); // number of a request on this connection -> its tab

  function open(token) {
    firstToken = token;
    join();
    // A suspended page cannot lead.
    addEventListener('pagehide', leave, life);
    addEventListener('pageshow', join, life);
    document.addEventListener('freeze', leave, life);
    document.addEventListener('resume', join, life);
  }

  /** Returns false if no leader can send the frame. */
  function transmit(frame) {
    if (leads) return sendFrom(id, frame);
    if (change.state !== 'open') return false;
    post('send', { frame });
    return true;
  }

  function retopic() {
    if (leads) connection.retopic();
    else post('topics', { topics: owner.wanted() });
  }

  function wake(isChanged) {
    if (leads) connection.wake(isChanged);
    else post('wake'); // the leader detects a changed network itself
  }

  // ---- joining and leaving

  function join() {
    if (channel) return;
    channel = new BroadcastChannel(name);
    channel.onmessage = ({ data }) => receive(data);
    timer = setInterval(checkLeader, PING_MS);
    presence.enter();
  }

  function leave() {
    clearInterval(timer);
    connection.suspend();
    leads = false;
    leadership.leave();
    presence.leave();
    flush();
    channel?.close();
    channel = undefined;
    change = { state: 'connecting' }; // frames to send are queued
  }

  function startLeading() {
    leads = true;
    others.clear();
    subscribed = undefined;
    pending.clear();
    replay = createReplayBuffer(owner.cursor());
    post('open');
    connection.open(firstToken);
    firstToken = undefined;
  }

  /** Called at the start, and when another tab has become the leader. */
  function startFollowing() {
    leads = false;
    unanswered = 0;
    connection.suspend();
    leadership.enter();
    hello();
  }

  /** A leader that hangs keeps its lock, so visible followers ping the leader. */
  function checkLeader() {
    firstToken = undefined; // the first token may have expired
    if (leads || !isVisible()) return;
    unanswered += 1;
    if (unanswered > MAX_UNANSWERED) leadership.enter(true);
    else post('ping');
  }

  // ---- between tabs

  function post(t, fields) {
    flush();
    channel?.postMessage({ t, from: id, leads, ...fields });
  }

  function hello() {
    post('hello', { topics: owner.wanted(), pos: owner.cursor() });
  }

  function receive(message) {
    const { t, to = id } = message;
    if (to !== id) return;
    // A leader with another version of this page may have changed its user.
    if (!connection.admits((message.change ?? message.frames?.find(({ user }) => user))?.user)) return;
    if (message.leads) unanswered = 0;
    if (t === 'closed') {
      life.abort();
      leave();
      connectAlone();
    } else if (t === 'frames') onTabFrames(message);
    else if (leads) serveTab(message);
    else if (t === 'open') hello();
    else if (t === 'connected') onWelcome(message);
    else if (t === 'state') onTabState(message);
  }

  /** Handles messages to the leader. */
  function serveTab({ t, from, frame, topics, pos }) {
    if (t === 'ping') post('pong');
    if (t === 'wake') connection.wake();
    if (t === 'send') sendFrom(from, frame);
    if (t === 'topics' || t === 'hello') others.set(from, topics);
    if (subscribed) allTopics();
    if (t === 'hello') welcome(from, pos);
    connection.retopic();
  }

  function welcome(to, pos) {
    navigator.locks.request(name + to, () => { // the tab has left or crashed
      others.delete(to);
      connection.retopic();
    });
    const cursor = owner.cursor();
    const missed = replay.since(pos);
    // Replays from the cursor in the request, because later frames have advanced the tab's cursor.
    const loss = pos ? { t: 'gap', from: pos, to: cursor, why: 'shed' } : { t: 'connected', pos: cursor };
    // Pending frames are old, so their cursors must not reset that tab's cursor.
    const frames = [...pending.values()].filter((frame) => !missed?.includes(frame))
      .map((frame) => ({ ...frame, pos: pos ?? cursor }))
      .concat(missed ?? loss);
    post('connected', { to, frames, resumed: !!missed, change });
  }

  function onWelcome({ frames, resumed, change: theirs }) {
    frames.forEach((frame) => owner.onFrame(frame));
    if (!resumed || change.state !== theirs.state) setState({ ...theirs, resumed });
  }

  function onTabState(message) {
    setState(message.change);
    // Timers of a hidden leader may be a minute late, so a visible tab wakes the leader when its delay has ended.
    const { retryIn } = change;
    clearTimeout(wakeTimer);
    if (retryIn >= 0 && isVisible()) wakeTimer = setTimeout(wake, retryIn + WAKE_DELAY_MS);
  }

  /** A former leader may have received frames that the new leader has not, so these frames are accepted too. */
  function onTabFrames({ frames, pos, from }) {
    if (from === id) return;
    const cursor = owner.cursor();
    if (!leads && (cursor ?? pos) !== pos) hello();
    frames.forEach((frame) => (!leads || frame.t === 'msg') && owner.onFrame(frame));
  }

  // ---- between the leader's connection and the tabs

  /**
   * A new topic invalidates the replay buffer, which does not contain earlier notifications of the topic. If the relay
   * would reject all topics together (see topicsOf()), the last tab has to connect alone.
   */
  function allTopics() {
    const lists = [owner.wanted(), ...others.values()];
    const before = subscribed;
    try {
      subscribed = lists.includes(undefined) ? undefined : topicsOf(lists);
    } catch {
      const [last] = [...others].pop();
      others.delete(last);
      post('closed', { to: last });
      return allTopics();
    }
    if (before && !subscribed?.every((topic) => before.includes(topic))) replay = createReplayBuffer(null);
    return subscribed;
  }

  /** Frames that arrive in one task are forwarded in one message, and handled in one task by each follower. */
  function publish(frame, length) {
    if (frame.r < 0) {
      reply(frame);
      return;
    }
    if (frame.n?.routing.retry.ack_required) addPending(frame);
    if (frame.n || frame.t === 'end') replay.remember(frame, length);
    if (frame.t === 'acked') removePending(frame.ids);
    if (frame.t === 'gap') replay = createReplayBuffer(frame.to);
    if (frame.conn) pending.clear(); // on `connected` the relay delivers pending notifications again, except to polls
    if (frame.t === 'connected' && !frame.resumed) replay = createReplayBuffer(frame.pos);
    forward(frame);
    owner.onFrame(frame);
  }

  /** Forwards the reply for a live list to its tab. */
  function reply(frame) {
    const to = askers.get(frame.r) ?? id;
    if (!frame.more) askers.delete(frame.r);
    if (to === id) owner.onFrame(frame);
    else post('frames', { to, frames: [frame], pos: owner.cursor() });
  }

  function forward(frame) {
    if (!batch) queueMicrotask(flush);
    batch ??= { frames: [], pos: owner.cursor() };
    batch.frames.push(frame);
  }

  function flush() {
    const complete = batch;
    batch = undefined;
    if (complete) post('frames', complete);
  }

  function addPending(frame) {
    pending.set(frame.n.metadata.id, frame);
    if (pending.size > MAX_PENDING) removePending([pending.keys().next().value]);
  }

  function removePending(ids) {
    for (const acked of ids) pending.delete(acked);
  }

  function sendFrom(from, frame) {
    if (frame.ids) return sendAcks(from, frame);
    askers.set(frame.r, from);
    return connection.transmit(frame);
  }

  /** Sends an ack or nack of any tab. Only the first ack counts, and is announced to the other tabs. */
  function sendAcks(from, frame) {
    const isOurs = from === id;
    const ids = frame.ids.filter((one) => isOurs || !owner.isAcked(one));
    if (!ids.length) return true;
    if (!connection.transmit({ ...frame, ids })) return false;
    removePending(ids);
    if (frame.t === 'ack') {
      const acked = { t: 'acked', ids };
      post('frames', { frames: [acked], pos: owner.cursor(), from });
      if (!isOurs) owner.onFrame(acked);
    }
    return true;
  }

  function changed(next) {
    askers.clear(); // replies are lost with the connection, and each list repeats its request
    // Final for this tab: close(), or a rejected token. Another tab with a valid token may become the leader.
    if (next.state === 'closed') {
      life.abort();
      leave();
    } else {
      post('state', { change: next });
    }
    setState(next);
  }

  function setState(next) {
    change = next;
    owner.onState(change);
  }

  return {
    open,
    transmit,
    retopic,
    wake,
    close: connection.close,
  };
}
