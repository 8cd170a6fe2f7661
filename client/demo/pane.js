// pane.js: the pane of one user: rows, notifications, acknowledgements.

import { connect } from './client/index.js';
import { inWords, latencyOf, milliseconds, money, nameOf, pause, signed } from './format.js';
import { createItems, text } from './items.js';
import { showBell } from './examples/bell.js';
import { showSent } from './examples/sent.js';
import { post } from './world.js';

const FEED_ROWS = 200;
const ACKED_ROWS = 3;
// Their rows are in lists of the pane.
const LISTED = ['inbox', 'sent_message', 'clairon.receipt'];

export class Pane {
  /** `onChange(what, value)` reports changes for the counters: message, repeat, pending, state. */
  constructor({ people, relay, user, onChange }) {
    this.relay = relay;
    this.onChange = onChange;
    this.element = document.getElementById('pane').content.firstElementChild.cloneNode(true);
    const select = this.find('.who select');
    for (const { id, name } of people) select.add(new Option(name, id));
    select.onchange = () => this.show(select.value);
    this.find('.message').onsubmit = (event) => {
      event.preventDefault();
      this.#send(event.target);
    };
    this.show(user);
  }

  find(selector) {
    return this.element.querySelector(selector);
  }

  get pending() {
    return this.element.querySelectorAll('.pending [data-ack="pending"]').length;
  }

  /** Switches the pane to another user. */
  show(user) {
    this.close();
    this.user = user;
    this.messages = 0;
    this.connections = 0;
    this.opened = performance.now();
    this.element.dataset.user = user;
    this.find('.who select').value = user;
    for (const list of this.element.querySelectorAll('ul, ol')) list.replaceChildren();
    this.#count();
    this.#connect();
    this.#openLists();
  }

  close() {
    this.lists?.forEach((list) => list.close());
    this.client?.close();
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
    client.on('repeat', () => this.onChange('repeat'));
    client.on('acked', ({ ids }) => ids.forEach((id) => this.#markAcked(id)));
    client.on('error', ({ error }) => { this.find('.state').title = error.message; });
    client.on('*', (n) => this.#receive(n));
  }

  #state({ state, reason, retryIn }) {
    const words = {
      connecting: 'connecting',
      open: 'connected',
      waiting: `${reason}; ${pause(retryIn ?? 0)}`,
      closed: `closed: ${reason}`,
    };
    this.element.dataset.state = state;
    this.find('.state span').textContent = words[state];
    if (state === 'open') this.element.dataset.connections = ++this.connections;
    this.onChange('state', state);
  }

  /** Each list contains the user's rows of a table, and is kept up to date. */
  #openLists() {
    const assignments = this.client.live('assignments');
    const accounts = this.client.live('account');
    const members = this.client.live('members'); // of the user's establishments
    const showAssignments = createItems(assignments, this.find('.assignments'), ({ id }) => id, drawAssignment);
    const showAccounts = createItems(accounts, this.find('.accounts'), ({ id }) => id, drawAccount);
    const showMemberships = createItems(members, this.find('.chips'), (row) => row.establishment_id, drawMembership);
    assignments.subscribe((rows) => {
      showAssignments(rows);
      this.find('.work').hidden = !assignments.loading && rows.length === 0;
    });
    accounts.subscribe(showAccounts);
    members.subscribe((rows) => {
      const isOwn = (row) => row.user_id === this.user;
      showMemberships(rows.filter(isOwn));
      this.find('.others').textContent = others(rows.filter((row) => !isOwn(row)));
    });
    const inbox = this.client.live('inbox');
    showBell(this.find('.bell'), inbox, (last) => post('read', { user: this.user, last }));
    const sent = this.client.live('sent_message');
    const receipts = this.client.live('clairon.receipt');
    showSent(this.find('.sent'), sent, receipts, nameOf);
    this.members = members;
    this.lists = [assignments, accounts, members, inbox, sent, receipts];
  }

  async #send(form) {
    const output = form.querySelector('output');
    try {
      await post('message', { user: this.user, text: form.elements.text.value });
      form.reset();
      output.textContent = '';
    } catch (error) {
      output.textContent = error.message;
    }
  }

  #receive(n) {
    const elapsed = latencyOf(n);
    // Latency is measured only for first deliveries of commits after the pane was opened.
    const isLive = elapsed < performance.now() - this.opened && n.routing.retry.attempts === 0;
    const latency = isLive ? elapsed : null;
    const { source } = n.metadata;
    if (LISTED.includes(source)) return;
    const { before, after } = n.payload;
    // Polls do not announce membership changes to the lists.
    const isMove = source === 'members' && (after ?? before)?.user_id === this.user;
    if (isMove && this.client.transport !== 'ws') this.members.reload();
    if (n.routing.retry.ack_required) this.#toAcknowledge(n);
    this.#feed(n, latency);
    this.messages += 1;
    this.#count();
    this.onChange('message', latency);
  }

  #toAcknowledge(n) {
    const { id } = n.metadata;
    const item = this.#pendingItem(id) ?? document.createElement('li');
    Object.assign(item.dataset, { row: id, ack: 'pending' });
    const button = text('button', 'Acknowledge');
    button.onclick = () => {
      this.client.ack(id);
      this.#markAcked(id);
    };
    item.replaceChildren(text('span', inWords(n)), text('em', 'pending', 'ack'), button);
    if (!item.parentNode) this.find('.pending').append(item);
    this.#count();
  }

  #pendingItem(id) {
    return this.find(`.pending [data-row="${CSS.escape(id)}"]`);
  }

  #markAcked(id) {
    const item = this.#pendingItem(id);
    if (!item || item.dataset.ack === 'acked') return;
    const next = item.nextElementSibling?.querySelector('button');
    const focused = item.contains(document.activeElement);
    item.dataset.ack = 'acked';
    item.querySelector('button').remove();
    item.querySelector('em').textContent = 'acknowledged';
    if (focused) (next ?? this.find('.feed')).focus();
    const done = [...this.element.querySelectorAll('.pending [data-ack="acked"]')];
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
    this.find('.todo').hidden = this.find('.pending').childElementCount === 0;
    this.onChange('pending');
  }
}

function drawAssignment(item, { id, title, grade, status }) {
  item.dataset.status = status;
  item.replaceChildren(
    text('small', `#${id}`), text('span', title), text('b', grade === null ? '' : `${grade}/20`, 'grade'),
    text('em', status, `status ${status}`),
  );
}

function drawAccount(item, { balance }, before) {
  const moved = before ? balance - before.balance : 0;
  item.dataset.balance = balance;
  const delta = text('span', moved ? signed(moved) : '', moved < 0 ? 'delta down' : 'delta up');
  item.replaceChildren(text('small', 'balance'), text('strong', money(balance)), delta);
}

function drawMembership(item, { role, establishment_id: establishment }) {
  item.textContent = `${role} · ${nameOf(establishment)}`;
}

/** The other members of the user's establishments, in one line. */
function others(rows) {
  const names = rows.map(({ user_id: user, role }) => `${nameOf(user)} (${role})`);
  return names.length > 0 ? `with ${[...new Set(names)].sort().join(', ')}` : '';
}
