// pane.js: the pane of one user: rows, notifications, acknowledgements.

import { connect } from './client/index.js';
import { inWords, latencyOf, micros, milliseconds, money, nameOf, pause, signed } from './format.js';
import { get, post } from './world.js';

const FEED_ROWS = 200;
const ACKED_ROWS = 3;

export class Pane {
  /** `onChange(what, value)` reports what to count: message, repeat, pending, state. */
  constructor({ people, relay, user, onChange }) {
    this.people = people;
    this.relay = relay;
    this.onChange = onChange;
    this.element = document.getElementById('pane').content.firstElementChild.cloneNode(true);
    const select = this.find('.who select');
    for (const { id, name } of people) select.add(new Option(name, id));
    select.onchange = () => this.show(select.value);
    this.show(user);
  }

  find(selector) {
    return this.element.querySelector(selector);
  }

  get pending() {
    return this.element.querySelectorAll('.inbox [data-ack="pending"]').length;
  }

  /** Switches the pane to another user. */
  show(user) {
    this.client?.close();
    this.user = user;
    this.stamps = new Map(); // row -> newest displayed updated_at
    this.messages = 0;
    this.connections = 0;
    this.moves = 0; // received membership notifications
    this.opened = performance.now();
    this.element.dataset.user = user;
    this.find('.who select').value = user;
    for (const list of this.element.querySelectorAll('ul, ol')) list.replaceChildren();
    this.#count();
    this.#load(); // also without a connection to the relay
    this.#connect();
  }

  close() {
    this.client.close();
  }

  #connect() {
    const { user } = this;
    const client = connect({
      url: this.relay,
      token: async () => (await post('token', { user })).token,
      ack: 'manual',
      storage: `clairon:${user}`,
      backoff: { base: 250, cap: 2000 },
    });
    this.client = client;
    client.on('state', (change) => this.#state(change));
    client.on('gap', () => this.#load());
    client.on('repeat', () => this.onChange('repeat'));
    client.on('acked', ({ ids }) => ids.forEach((id) => this.#markAcked(id)));
    client.on('error', ({ error }) => { this.find('.state').title = error.message; });
    client.on('*', (n) => this.#receive(n));
  }

  #state({ state, resumed, reason, retryIn }) {
    const words = {
      connecting: 'connecting',
      open: 'connected',
      waiting: `${reason}; ${pause(retryIn ?? 0)}`,
      closed: `closed: ${reason}`,
    };
    this.element.dataset.state = state;
    this.find('.state span').textContent = words[state];
    if (state === 'open') this.element.dataset.connections = ++this.connections;
    if (state === 'open' && !resumed) this.#load();
    this.onChange('state', state);
  }

  /**
   * Loads the current rows. Notifications that overtake the response win: they have newer stamps.
   * Memberships have no stamp, so the load is repeated if one of their notifications overtook it.
   */
  async #load() {
    const { user, moves } = this;
    let state;
    try {
      state = await get(`state?user=${encodeURIComponent(user)}`);
    } catch (error) {
      this.find('.state').title = error.message;
      return;
    }
    if (user !== this.user) return;
    for (const row of state.assignments) this.#assignment(row);
    for (const row of state.accounts) this.#account(row);
    this.find('.work').hidden = this.find('.assignments').childElementCount === 0;
    if (moves !== this.moves) {
      this.#load();
      return;
    }
    this.find('.chips').replaceChildren();
    for (const row of state.members) this.#membership(row);
  }

  #receive(n) {
    const elapsed = latencyOf(n);
    // Only a first delivery of a commit after the pane was opened measures the latency.
    const isLive = elapsed < performance.now() - this.opened && n.routing.retry.attempts === 0;
    const latency = isLive ? elapsed : null;
    const { source, operation } = n.metadata;
    const { before, after } = n.payload;
    if (source === 'assignments') this.#assignment(after ?? before, operation);
    if (source === 'account') this.#account(after ?? before, operation);
    if (source === 'members') this.#membership(after ?? before, operation);
    if (n.routing.retry.ack_required) this.#toAcknowledge(n);
    this.#feed(n, latency);
    this.messages += 1;
    this.#count();
    this.onChange('message', latency);
  }

  /** Returns false for a row that is older than the displayed one. */
  #isNews(key, row) {
    const stamp = micros(row.updated_at);
    if (stamp < (this.stamps.get(key) ?? -Infinity)) return false;
    this.stamps.set(key, stamp);
    return true;
  }

  #item(list, key) {
    const parent = this.find(list);
    let item = parent.querySelector(`[data-row="${CSS.escape(key)}"]`);
    if (!item) {
      item = document.createElement('li');
      item.dataset.row = key;
      parent.append(item);
    }
    return item;
  }

  #assignment(row, operation) {
    const key = String(row.id);
    if (operation === 'delete') {
      this.#item('.assignments', key).remove();
      return;
    }
    if (!this.#isNews(`assignment ${key}`, row)) return;
    this.find('.work').hidden = false;
    const item = this.#item('.assignments', key);
    item.dataset.status = row.status;
    const grade = row.grade === null ? '' : `${row.grade}/20`;
    item.replaceChildren(
      text('small', `#${key}`), text('span', row.title), text('b', grade, 'grade'),
      text('em', row.status, `status ${row.status}`),
    );
    if (operation) flash(item);
  }

  #account(row, operation) {
    if (operation === 'delete') {
      this.#item('.accounts', row.id).remove();
      return;
    }
    if (!this.#isNews(`account ${row.id}`, row)) return;
    const item = this.#item('.accounts', row.id);
    const moved = operation && item.dataset.balance ? row.balance - item.dataset.balance : 0;
    item.dataset.balance = row.balance;
    const delta = text('span', moved ? signed(moved) : '', moved < 0 ? 'delta down' : 'delta up');
    item.replaceChildren(text('small', 'balance'), text('strong', money(row.balance)), delta);
    if (moved) flash(item);
  }

  #membership(row, operation) {
    if (row.user_id !== this.user) return;
    if (operation) this.moves += 1;
    const item = this.#item('.chips', row.establishment_id);
    if (operation === 'delete') {
      item.remove();
      return;
    }
    item.textContent = `${row.role} · ${nameOf(row.establishment_id)}`;
    if (operation) flash(item);
  }

  #toAcknowledge(n) {
    const { id } = n.metadata;
    const item = this.#item('.inbox', id);
    item.dataset.ack = 'pending';
    const button = text('button', 'Acknowledge');
    button.onclick = () => {
      this.client.ack(id);
      this.#markAcked(id);
    };
    item.replaceChildren(text('span', inWords(n)), text('em', 'pending', 'ack'), button);
    this.#count();
  }

  #markAcked(id) {
    const item = this.find(`.inbox [data-row="${CSS.escape(id)}"]`);
    if (!item || item.dataset.ack === 'acked') return;
    const next = item.nextElementSibling?.querySelector('button');
    const focused = item.contains(document.activeElement);
    item.dataset.ack = 'acked';
    item.querySelector('button').remove();
    item.querySelector('em').textContent = 'acknowledged';
    if (focused) (next ?? this.find('.feed')).focus();
    const done = [...this.element.querySelectorAll('.inbox [data-ack="acked"]')];
    for (const old of done.slice(0, -ACKED_ROWS)) old.remove();
    this.#count();
  }

  #feed(n, latency) {
    const { id, type, priority, source, operation, timestamp } = n.metadata;
    const item = document.createElement('li');
    Object.assign(item.dataset, { id, source, operation });
    const details = document.createElement('details');
    const summary = document.createElement('summary');
    const facts = document.createElement('span');
    facts.className = 'facts';
    facts.append(
      text('b', operation, `operation ${operation}`), text('span', source),
      text('span', type.toLowerCase(), `type ${type}`),
    );
    if (priority !== 'NORMAL') facts.append(text('span', priority.toLowerCase(), 'priority'));
    facts.append(text('span', latency === null ? 'earlier' : milliseconds(latency), 'latency'));
    summary.append(facts, text('span', inWords(n), 'words'));
    details.append(summary);
    details.ontoggle = () => {
      if (details.open && !details.querySelector('pre')) {
        details.append(text('pre', JSON.stringify(n, null, 2)));
      }
    };
    item.append(details);
    item.title = timestamp;
    const feed = this.find('.feed');
    feed.prepend(item);
    if (feed.childElementCount > FEED_ROWS) feed.lastElementChild.remove();
  }

  #count() {
    this.find('.total').textContent = this.messages;
    this.find('.empty').hidden = this.messages > 0;
    this.find('.todo').hidden = this.find('.inbox').childElementCount === 0;
    this.onChange('pending');
  }
}

function text(tag, content, className = '') {
  const element = document.createElement(tag);
  element.textContent = content;
  if (className) element.className = className;
  return element;
}

/** Restarts the highlight, also while the last one is running. */
function flash(element) {
  element.classList.remove('flash');
  void element.offsetWidth;
  element.classList.add('flash');
}
