// tabs.js: one connection for all tabs of one user: the leader has it, the others hear of it.
//
// What tabs tell each other on the channel, each with `from`, and `leads` when it is from a leader:
//   topics   to the leader: show me these `topics`
//   hello    to the leader: the same, and what I missed since `pos` (undefined: I am new)
//   open     to all: I lead now
//   connected to one: the answer to hello
//   frame    to all: a frame of the relay's, and `pos`, the place before it; `from` needs it not
//   state    to all: what the connection does
//   send     to the leader: send this ack or nack
//   ping     to the leader: are you still there?   pong: yes
//   wake     to the leader: do not wait any longer
//   bye      to the leader: forget my topics

import { createConnection } from './connection.js';
import { createLeadership } from './leadership.js';
import { createRecent } from './recent.js';
import { isSeen } from './wake.js';

const ASK_MS = 5_000;
const NUDGE_MS = 1_000;
const PATIENCE = 3; // questions without an answer
const MAX_HELD = 1_000;

/**
 * To its owner it is what a connection is. `name`: the same for all tabs of one user. `owner`: as
 * a connection's, and isAcked(id). `settings`: as a connection's.
 */
export function createTabs(name, settings, owner) {
  const id = Math.random();
  const connection = createConnection(settings, {
    ...owner,
    wanted: allTopics,
    onFrame: publish,
    onState: changed,
  });
  const leadership = createLeadership(name, lead, follow);
  const life = new AbortController(); // has a `signal`, as options of a listener do
  let channel; // undefined: not in the line
  let leads = false;
  let firstToken; // brought to learn the name; serves the first connect
  let change = { state: 'connecting' }; // the last that was told
  let unanswered = 0;
  let timer;
  let nudge;
  // What only a leader has:
  const others = new Map(); // tab -> its topics
  const held = new Map(); // id -> frame of a message that nobody has acked yet
  let recent;
  let asked; // the topics that the connection shows; undefined: all, or none was asked for yet

  function open(token) {
    firstToken = token;
    join();
    // A page that sleeps cannot lead.
    addEventListener('pagehide', leave, life);
    addEventListener('pageshow', join, life);
    document.addEventListener('freeze', leave, life);
    document.addEventListener('resume', join, life);
  }

  /** False when nobody is there to send it. */
  function transmit(frame) {
    if (leads) return judge(frame, id);
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
    else post('wake'); // whether the network changed, the leader hears itself
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
    clearInterval(timer);
    connection.suspend();
    leads = false;
    leadership.leave();
    post('bye');
    channel?.close();
    channel = undefined;
    change = { state: 'connecting' }; // what is to be sent waits
  }

  function lead() {
    leads = true;
    others.clear();
    asked = undefined;
    held.clear();
    recent = createRecent(owner.position());
    post('open');
    connection.open(firstToken);
    firstToken = undefined;
  }

  /** At first, and when another tab has taken the lead away. */
  function follow() {
    leads = false;
    unanswered = 0;
    connection.suspend();
    leadership.enter();
    hello();
  }

  /** A leader that is frozen or busy for ever keeps its lock: somebody looks, if a person does. */
  function watch() {
    firstToken = undefined; // by now it may be an old one
    if (leads || !isSeen()) return;
    unanswered += 1;
    if (unanswered > PATIENCE) leadership.enter(true);
    else post('ping');
  }

  // ---- between tabs

  function post(t, fields) {
    channel?.postMessage({ t, from: id, leads, ...fields });
  }

  function hello() {
    post('hello', { topics: owner.wanted(), pos: owner.position() });
  }

  function receive(message) {
    const { t, to = id } = message;
    if (to !== id) return;
    // A leader of another version of this page may have changed its user.
    if (!connection.admits((message.change ?? message.frame)?.user)) return;
    if (message.leads) unanswered = 0;
    if (t === 'frame') heardFrame(message);
    else if (leads) serve(message);
    else if (t === 'open') hello();
    else if (t === 'connected') welcomed(message);
    else if (t === 'state') heardState(message);
  }

  /** What only the leader answers. */
  function serve({ t, from, frame, topics, pos }) {
    if (t === 'ping') post('pong');
    if (t === 'wake') connection.wake();
    if (t === 'send') judge(frame, from);
    if (t === 'bye') others.delete(from);
    if (t === 'topics' || t === 'hello') others.set(from, topics);
    if (asked) allTopics();
    if (t === 'hello') welcome(from, pos);
    connection.retopic();
  }

  function welcome(to, pos) {
    const here = owner.position();
    const missed = recent.since(pos);
    // By what it asked: what it has heard since moved its place.
    const loss = pos ? { t: 'gap', from: pos, to: here, why: 'shed' } : { t: 'connected', pos: here };
    // What is held came long ago: its place is not where that tab is.
    const frames = [...held.values()].map((frame) => ({ ...frame, pos: pos ?? here }))
      .concat(missed ?? loss);
    post('connected', { to, frames, resumed: !!missed, change });
  }

  function welcomed({ frames, resumed, change: theirs }) {
    frames.forEach((frame) => owner.onFrame(frame));
    if (!resumed || change.state !== theirs.state) tell({ ...theirs, resumed });
  }

  function heardState(message) {
    tell(message.change);
    // In a hidden tab timers may be a minute late: one that is looked at minds the leader's wait.
    const { retryIn } = change;
    clearTimeout(nudge);
    if (retryIn >= 0 && isSeen()) nudge = setTimeout(wake, retryIn + NUDGE_MS);
  }

  /** Also from a leader that does not know yet that it is none: what it got, nobody else gets. */
  function heardFrame({ frame, pos, from }) {
    if (from === id || (leads && frame.t !== 'msg')) return;
    const here = owner.position();
    if (!leads && (here ?? pos) !== pos) hello();
    owner.onFrame(frame);
  }

  // ---- between the leader's connection and all tabs

  /** Of a topic that is new among them more was missed than `recent` knows: no place holds any more. */
  function allTopics() {
    const lists = [owner.wanted(), ...others.values()];
    const before = asked;
    asked = lists.includes(undefined) ? undefined : [...new Set(lists.flat())];
    if (before && !asked?.every((topic) => before.includes(topic))) recent = createRecent(null);
    return asked;
  }

  /** To the others first: what this tab's handlers do must not hold it up. */
  function publish(frame, length) {
    if (frame.t === 'msg') {
      if (frame.n.routing.retry.ack_required) hold(frame);
      recent.remember(frame, length);
    }
    if (frame.t === 'acked') release(frame.ids);
    if (frame.t === 'gap') recent = createRecent(frame.to);
    if (frame.conn) held.clear(); // connected: what still waits is shown again, but not to polls
    if (frame.t === 'connected' && !frame.resumed) recent = createRecent(frame.pos);
    post('frame', { frame, pos: owner.position() });
    owner.onFrame(frame);
  }

  function hold(frame) {
    held.set(frame.n.metadata.id, frame);
    if (held.size > MAX_HELD) release([held.keys().next().value]);
  }

  function release(ids) {
    for (const acked of ids) held.delete(acked);
  }

  /** An ack or nack of any tab; the first ack counts, and the others hear of it. */
  function judge(frame, from) {
    const isOurs = from === id;
    const ids = frame.ids.filter((one) => isOurs || !owner.isAcked(one));
    if (!ids.length) return true;
    if (!connection.transmit({ ...frame, ids })) return false;
    release(ids);
    if (frame.t === 'ack') {
      const acked = { t: 'acked', ids };
      post('frame', { frame: acked, pos: owner.position(), from });
      if (!isOurs) owner.onFrame(acked);
    }
    return true;
  }

  function changed(next) {
    // With this tab's token it is over; that of another may be better.
    if (next.state === 'closed') {
      life.abort();
      leave();
    } else {
      post('state', { change: next });
    }
    tell(next);
  }

  function tell(next) {
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
