// tabs.js: one connection for all tabs of one user: the leader has it, the others hear of it.
//
// What tabs tell each other on the channel, each with `from`:
//   hello    to the leader: I am here, show me these `topics`. With `pos`: and what I missed since (null: I am new)
//   leader   to all: I lead now; I have seen `number` messages
//   welcome  to one: the answer to hello
//   frame    to all: a frame of the relay's, and the number of messages until then
//   state    to all: what the connection does
//   verdict  to the leader: send this ack or nack
//   ask      to the leader: are you still there?   here: yes
//   wake     to the leader: do not wait any longer
//   bye      to the leader: forget my topics

import { createLeadership } from './leadership.js';
import { createRecent } from './recent.js';

const ASK_MS = 5_000;
const NUDGE_MS = 1_000;
const PATIENCE = 3; // questions without an answer
const FROM_LEADER = ['leader', 'welcome', 'frame', 'state', 'here'];
const MAX_HELD = 1_000;

/**
 * To its owner it is what a connection is. `name`: the same for all tabs of one user. `owner`: as
 * a connection's, and isAcked(id). `connect(owner)` makes the connection of a leader.
 */
export function createTabs(name, connect, owner) {
  const id = Math.random().toString(36);
  const connection = connect({
    ...owner,
    topics: allTopics,
    onFrame: publish,
    onState: changed,
  });
  const leadership = createLeadership(name, lead, follow);
  let channel = null; // null: not in the line
  let isLeader = false;
  let firstToken; // brought to learn the name; serves the first connect
  let number = 0; // messages seen by all tabs together
  let change = { state: 'connecting' }; // the last that was told
  let transport; // the leader's
  let unanswered = 0;
  let timer;
  let nudge;
  // What only a leader has:
  const others = new Map(); // tab -> its topics
  const held = new Map(); // id -> frame of a message that nobody has acked yet
  let recent;

  function open(token) {
    firstToken = token;
    listen('addEventListener');
    join();
  }

  function close() {
    listen('removeEventListener');
    leave();
    tell({ state: 'closed', reason: 'closed by this page' });
  }

  /** A page that sleeps cannot lead. */
  function listen(method) {
    globalThis[method]('pagehide', leave);
    globalThis[method]('pageshow', join);
    document[method]('freeze', leave);
    document[method]('resume', join);
  }

  /** False when nobody is there to send it. */
  function send(frame) {
    if (isLeader) return judge(frame, id);
    if (change.state !== 'open') return false;
    post({ t: 'verdict', frame });
    return true;
  }

  function retopic() {
    if (isLeader) connection.retopic();
    else hello();
  }

  function wake(isChanged) {
    if (isLeader) connection.wake(isChanged);
    else post({ t: 'wake', isChanged });
  }

  // ---- coming and going

  function join() {
    if (channel) return;
    channel = new BroadcastChannel(name);
    channel.onmessage = ({ data }) => receive(data);
    timer = setInterval(watch, ASK_MS);
    follow();
  }

  function leave() {
    if (!channel) return;
    clearInterval(timer);
    clearTimeout(nudge);
    connection.suspend();
    isLeader = false;
    leadership.leave();
    post({ t: 'bye' });
    channel.close();
    channel = null;
  }

  function lead() {
    isLeader = true;
    others.clear();
    held.clear();
    recent = createRecent(owner.position());
    post({ t: 'leader', number });
    connection.open(firstToken);
    firstToken = undefined;
  }

  /** At first, and when another tab has taken the lead away. */
  function follow() {
    isLeader = false;
    unanswered = 0;
    connection.suspend();
    leadership.join();
    hello(owner.position());
  }

  /** A leader that is frozen or busy for ever keeps its lock: somebody looks, if a person does. */
  function watch() {
    if (isLeader || document.visibilityState !== 'visible') return;
    unanswered += 1;
    if (unanswered > PATIENCE) leadership.seize();
    else post({ t: 'ask' });
  }

  // ---- between tabs

  function post(message) {
    channel?.postMessage({ ...message, from: id });
  }

  function hello(pos) {
    post({ t: 'hello', topics: owner.topics(), pos });
  }

  function receive(message) {
    const { t, to = id } = message;
    if (to !== id) return;
    if (FROM_LEADER.includes(t)) unanswered = 0;
    if (t === 'frame') heardFrame(message);
    else if (isLeader) serve(message);
    else follower(message);
  }

  /** What only the leader answers. */
  function serve({ t, from, frame, topics, pos, isChanged }) {
    if (t === 'ask') post({ t: 'here' });
    if (t === 'wake') connection.wake(isChanged);
    if (t === 'verdict') judge(frame, from);
    if (t === 'bye') others.delete(from);
    if (t === 'hello') {
      others.set(from, topics);
      welcome(from, pos);
    }
    connection.retopic();
  }

  function welcome(to, pos) {
    const here = owner.position();
    const isInLine = pos === undefined || pos === here;
    post({
      t: 'welcome',
      to,
      held: [...held.values()],
      missed: isInLine ? [] : recent.after(pos),
      pos: here,
      number,
      change,
      transport: connection.transport(),
    });
  }

  /** What only the others hear. */
  function follower(message) {
    const { t } = message;
    if (t === 'leader') hello(number < message.number ? owner.position() : undefined);
    if (t === 'welcome') welcomed(message);
    if (t === 'state') {
      transport = message.transport;
      tell(message.change);
      planNudge(message.change);
    }
  }

  /** In a hidden tab timers may be a minute late: one that is looked at minds the leader's wait. */
  function planNudge({ retryIn }) {
    clearTimeout(nudge);
    if (retryIn === undefined || document.visibilityState !== 'visible') return;
    nudge = setTimeout(wake, retryIn + NUDGE_MS, false);
  }

  function welcomed({ missed, pos, ...theirs }) {
    const was = owner.position();
    number = theirs.number;
    transport = theirs.transport;
    // What is held came long ago: its place is not where we are.
    for (const frame of theirs.held) owner.onFrame({ ...frame, pos: was ?? pos });
    for (const frame of missed ?? []) owner.onFrame(frame);
    if (!missed) {
      owner.onFrame(was === null
        ? { t: 'connected', resumed: false, pos }
        : { t: 'gap', from: was, to: pos, why: 'shed' });
    }
    if (!missed || theirs.change.state !== change.state) tell({ ...theirs.change, resumed: !!missed });
  }

  /** Also from a leader that does not know yet that it is none: what it got, nobody else gets. */
  function heardFrame({ frame, number: theirs, except }) {
    if (except === id || (isLeader && frame.t !== 'msg')) return;
    if (!isLeader && number > 0 && theirs > number + 1) hello(owner.position());
    number = Math.max(number, theirs);
    owner.onFrame(frame);
  }

  // ---- between the leader's connection and all tabs

  function allTopics() {
    const lists = [owner.topics(), ...others.values()];
    return lists.includes(null) ? null : [...new Set(lists.flat())];
  }

  /** To the others first: what this tab's handlers do must not hold it up. */
  function publish(frame, length) {
    if (frame.t === 'msg') hold(frame, length);
    if (frame.t === 'acked') release(frame.ids);
    if (frame.t === 'connected' && !frame.resumed) recent = createRecent(frame.pos);
    post({ t: 'frame', frame, number });
    owner.onFrame(frame);
  }

  function hold(frame, length) {
    number += 1;
    recent.push(frame, length);
    if (!frame.n.routing.retry.ack_required) return;
    held.set(frame.n.metadata.id, frame);
    if (held.size > MAX_HELD) held.delete(held.keys().next().value);
  }

  function release(ids) {
    for (const acked of ids) held.delete(acked);
  }

  /** An ack or nack of any tab; the first ack counts, and the others hear of it. */
  function judge(frame, from) {
    const isOurs = from === id;
    const ids = isOurs ? frame.ids : frame.ids.filter((one) => !owner.isAcked(one));
    if (ids.length === 0) return true;
    if (!connection.send({ ...frame, ids })) return false;
    release(ids);
    if (frame.t !== 'ack') return true;
    const acked = { t: 'acked', ids };
    post({ t: 'frame', frame: acked, number, except: from });
    if (!isOurs) owner.onFrame(acked);
    return true;
  }

  function changed(next) {
    // With this tab's token it is over; that of another may be better.
    if (next.state === 'closed') leave();
    else post({ t: 'state', change: next, transport: connection.transport() });
    tell(next);
  }

  function tell(next) {
    change = next;
    owner.onState(change);
  }

  return {
    open,
    send,
    retopic,
    wake,
    close,
    state: () => change.state,
    transport: () => (isLeader ? connection.transport() : transport),
  };
}
