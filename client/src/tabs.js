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
//   bye      to the leader: forget my topics

import { Connection } from './connection.js';
import { Leadership } from './leadership.js';
import { Recent } from './recent.js';

const ASK_MS = 5_000;
const PATIENCE = 3; // questions without an answer
const MAX_HELD = 1_000;

export const canShare = () =>
  Boolean(globalThis.document && globalThis.navigator?.locks && globalThis.BroadcastChannel);

/** To its owner it is what a Connection is. */
export class Tabs {
  #name;
  #owner;
  #connection;
  #channel;
  #leadership;
  #id = Math.random().toString(36).slice(2);
  #isLeader = false;
  #token; // brought to learn the name; serves the first connect
  #number = 0; // messages seen by all tabs together
  #change = { state: 'connecting' };
  #transport;
  #unanswered = 0;
  #timer;
  // The leader's:
  #others = new Map(); // tab -> its topics
  #recent; // what a tab may have missed
  #held = new Map(); // id -> frame of a message that nobody has acked yet

  /** `name`: the same for all tabs of one user. `owner`: as a Connection's, and isAcked(id). */
  constructor(name, settings, owner) {
    this.#name = name;
    this.#owner = owner;
    this.#connection = new Connection(settings, {
      position: () => owner.position(),
      topics: () => this.#allTopics(),
      onFrame: (frame, size) => this.#publish(frame, size),
      onState: (change) => this.#onState(change),
      onError: (error) => owner.onError(error),
    });
    this.#leadership = new Leadership(name, () => this.#lead(), () => this.#follow());
  }

  get state() {
    return this.#change.state;
  }

  get transport() {
    return this.#isLeader ? this.#connection.transport : this.#transport;
  }

  open(token) {
    this.#token = token;
    globalThis.document.addEventListener('freeze', this.#leave);
    globalThis.document.addEventListener('resume', this.#join);
    globalThis.addEventListener('pagehide', this.#leave);
    globalThis.addEventListener('pageshow', this.#join);
    this.#join();
  }

  /** False when nobody is there to send it. */
  send(frame) {
    if (this.#isLeader) return this.#verdict(frame, this.#id);
    if (this.state !== 'open') return false;
    this.#post({ t: 'verdict', frame });
    return true;
  }

  retopic() {
    if (this.#isLeader) this.#connection.retopic();
    else this.#hello();
  }

  wake(isChanged) {
    if (this.#isLeader) this.#connection.wake(isChanged);
  }

  close() {
    globalThis.document.removeEventListener('freeze', this.#leave);
    globalThis.document.removeEventListener('resume', this.#join);
    globalThis.removeEventListener('pagehide', this.#leave);
    globalThis.removeEventListener('pageshow', this.#join);
    this.#leave();
    this.#tell({ state: 'closed', reason: 'closed by this page' });
  }

  // ---- coming and going

  #join = () => {
    if (this.#channel) return;
    this.#channel = new BroadcastChannel(this.#name);
    this.#channel.onmessage = ({ data }) => this.#receive(data);
    this.#follow();
    this.#timer = setInterval(() => this.#watch(), ASK_MS);
  };

  #leave = () => {
    if (!this.#channel) return;
    clearInterval(this.#timer);
    this.#connection.suspend();
    this.#isLeader = false;
    this.#leadership.leave();
    this.#post({ t: 'bye' });
    this.#channel.close();
    this.#channel = null;
  };

  #lead() {
    this.#isLeader = true;
    this.#others.clear();
    this.#held.clear();
    this.#recent = new Recent(this.#owner.position());
    this.#post({ t: 'leader', number: this.#number });
    this.#connection.open(this.#token);
    this.#token = undefined;
  }

  /** At first, and when the browser or another tab has taken the lead away. */
  #follow() {
    this.#isLeader = false;
    this.#unanswered = 0;
    this.#connection.suspend();
    this.#leadership.join();
    this.#hello(this.#owner.position());
  }

  /** A leader that is frozen or busy for ever keeps its lock: somebody looks, if a person does. */
  #watch() {
    if (this.#isLeader || globalThis.document.visibilityState !== 'visible') return;
    if (this.#unanswered >= PATIENCE) {
      this.#leadership.seize();
      return;
    }
    this.#unanswered += 1;
    this.#post({ t: 'ask' });
  }

  // ---- between tabs

  #post(message) {
    this.#channel?.postMessage({ ...message, from: this.#id });
  }

  #hello(pos) {
    this.#post({ t: 'hello', topics: this.#owner.topics(), pos });
  }

  #receive(message) {
    const { t, from } = message;
    if (t === 'frame') this.#heardFrame(message);
    else if (t === 'leader') this.#heardLeader(message);
    else if (this.#isLeader) this.#serve(message);
    else if (t === 'welcome' && message.to === this.#id) this.#welcomed(message);
    else if (t === 'state') this.#heardState(message);
    if (['frame', 'leader', 'welcome', 'state', 'here'].includes(t)) this.#unanswered = 0;
  }

  /** What only the leader answers. */
  #serve({ t, from, frame, topics, pos }) {
    if (t === 'hello') {
      this.#others.set(from, topics);
      this.#connection.retopic();
      this.#welcome(from, pos);
    } else if (t === 'bye') {
      this.#others.delete(from);
      this.#connection.retopic();
    } else if (t === 'verdict') {
      this.#verdict(frame, from);
    } else if (t === 'ask') {
      this.#post({ t: 'here' });
    }
  }

  #welcome(to, pos) {
    const here = this.#owner.position();
    const isInLine = pos === undefined || pos === here;
    this.#post({
      t: 'welcome',
      to,
      held: [...this.#held.values()],
      missed: isInLine ? [] : this.#recent.after(pos),
      pos: here,
      number: this.#number,
      change: this.#change,
      transport: this.transport,
    });
  }

  #welcomed({ held, missed, pos, number, change, transport }) {
    const was = this.#owner.position();
    this.#number = number;
    this.#transport = transport;
    // What is held came long ago: its place is not where we are.
    for (const frame of held) this.#owner.onFrame({ ...frame, pos: was ?? pos });
    for (const frame of missed ?? []) this.#owner.onFrame(frame);
    if (!missed && was !== null) this.#owner.onFrame({ t: 'gap', from: was, to: pos, why: 'shed' });
    if (!missed && was === null) this.#owner.onFrame({ t: 'connected', resumed: false, pos });
    if (!missed || change.state !== this.state) this.#tell({ ...change, resumed: Boolean(missed) });
  }

  #heardLeader({ number }) {
    if (this.#isLeader) return; // the lock will say so
    this.#hello(this.#number < number ? this.#owner.position() : undefined);
  }

  /** Also from a leader that does not know yet that it is none: what it got, nobody else gets. */
  #heardFrame({ frame, number, except }) {
    if (except === this.#id || (this.#isLeader && frame.t !== 'msg')) return;
    const hasMissed = this.#number > 0 && number > this.#number + 1;
    if (hasMissed && !this.#isLeader) this.#hello(this.#owner.position());
    this.#number = Math.max(this.#number, number);
    this.#owner.onFrame(frame);
  }

  #heardState({ change, transport }) {
    this.#transport = transport;
    this.#tell(change);
  }

  // ---- between the leader's connection and all tabs

  #allTopics() {
    const lists = [this.#owner.topics(), ...this.#others.values()];
    return lists.includes(null) ? null : [...new Set(lists.flat())];
  }

  /** To the others first: what this tab's handlers do must not hold it up. */
  #publish(frame, size) {
    if (frame.t === 'msg') this.#hold(frame, size);
    if (frame.t === 'acked') this.#release(frame.ids);
    if (frame.t === 'connected' && !frame.resumed) this.#recent = new Recent(frame.pos);
    this.#post({ t: 'frame', frame, number: this.#number });
    this.#owner.onFrame(frame);
  }

  #hold(frame, size) {
    this.#number += 1;
    this.#recent.push(frame, size);
    if (!frame.n.routing?.retry?.ack_required) return;
    this.#held.set(frame.n.metadata.id, frame);
    if (this.#held.size > MAX_HELD) this.#held.delete(this.#held.keys().next().value);
  }

  #release(ids) {
    for (const id of ids) this.#held.delete(id);
  }

  /** An ack or nack of any tab; the first ack counts, and the others hear of it. */
  #verdict(frame, from) {
    const isOurs = from === this.#id;
    const ids = isOurs ? frame.ids : frame.ids.filter((id) => !this.#owner.isAcked(id));
    if (ids.length === 0) return true;
    if (!this.#connection.send({ ...frame, ids })) return false;
    this.#release(ids);
    if (frame.t !== 'ack') return true;
    const acked = { t: 'acked', ids };
    this.#post({ t: 'frame', frame: acked, number: this.#number, except: from });
    if (!isOurs) this.#owner.onFrame(acked);
    return true;
  }

  #onState(change) {
    // With this tab's token it is over; that of another may be better.
    if (change.state === 'closed') this.#leave();
    else this.#post({ t: 'state', change, transport: this.transport });
    this.#tell(change);
  }

  #tell(change) {
    this.#change = change;
    this.#owner.onState(change);
  }
}
