// demo.js: builds the page: forms that write to tables, panes that receive notifications.

import { median, milliseconds, nameOf, setNames } from './format.js';
import { Pane } from './pane.js';
import { get, post } from './world.js';

const DEFAULT_USERS = ['u1', 'u2', 'u3'];
const LATENCIES_KEPT = 500;

const byId = (id) => document.getElementById(id);
const counts = { messages: 0, repeats: 0, latencies: [] };
const panes = [];
let redraw = null;

/** Redraws the counters at most every 50 ms. */
function drawCounters() {
  redraw ??= setTimeout(() => {
    redraw = null;
    byId('count-messages').textContent = counts.messages;
    byId('count-repeats').textContent = counts.repeats;
    byId('count-pending').textContent = panes.reduce((sum, pane) => sum + pane.pending, 0);
    if (counts.latencies.length > 0) {
      byId('count-latency').textContent = milliseconds(median(counts.latencies));
    }
    drawSwitch();
  }, 50);
}

function onChange(what, value) {
  if (what === 'message') {
    counts.messages += 1;
    if (value !== null) counts.latencies.push(value);
    if (counts.latencies.length > LATENCIES_KEPT) counts.latencies.shift();
  }
  if (what === 'repeat') counts.repeats += 1;
  drawCounters();
}

/** A phone shows one pane at a time; the others stay connected, behind their buttons. */
function drawSwitch() {
  for (const [i, button] of [...document.querySelectorAll('.switch button')].entries()) {
    button.textContent = `${nameOf(panes[i].user).split(' ')[0]} · ${panes[i].messages}`;
    button.dataset.state = panes[i].element.dataset.state ?? '';
    button.classList.toggle('todo', panes[i].pending > 0);
  }
}

function showPane(index) {
  for (const [i, pane] of panes.entries()) pane.element.classList.toggle('current', i === index);
  for (const [i, button] of [...document.querySelectorAll('.switch button')].entries()) {
    button.setAttribute('aria-pressed', String(i === index));
  }
}

function fill(form, name, options) {
  const select = document.querySelector(`form[data-post="${form}"] [name="${name}"]`);
  for (const [value, label] of options) select.add(new Option(label, value));
  return select;
}

function fillForms({ assignments, establishments, people, accounts }) {
  const owned = accounts.map((a) => [a.id, nameOf(a.owner)]);
  const names = establishments.map((e) => [e.id, e.name]);
  fill('assignment', 'id', assignments.map((a) => [a.id, `${nameOf(a.student_id)}: ${a.title} (#${a.id})`]));
  fill('member', 'establishment', names);
  fill('member', 'user', people.map((p) => [p.id, p.name]));
  fill('announcement', 'establishment', names);
  fill('transfer', 'from', owned);
  fill('transfer', 'to', owned).selectedIndex = 1;
}

function valuesOf(form) {
  const values = Object.fromEntries(new FormData(form));
  for (const field of form.querySelectorAll('[data-number]')) {
    values[field.name] = Number(values[field.name]);
  }
  return values;
}

async function submit(form, values) {
  const output = form.querySelector('output');
  try {
    const reply = await post(form.dataset.post, values);
    output.className = reply.moved === false ? 'same' : 'good';
    output.textContent = reply.done;
  } catch (error) {
    output.className = 'bad';
    output.textContent = error.message;
  }
}

function wireForms() {
  let lastTransfer = null;
  for (const form of document.querySelectorAll('form[data-post]')) {
    form.onsubmit = (event) => {
      event.preventDefault();
      const values = valuesOf(form);
      if (form.dataset.post === 'transfer') {
        values.key = `page-${crypto.randomUUID().slice(0, 8)}`;
        lastTransfer = values;
        byId('repeat-key').disabled = false;
      }
      submit(form, values);
    };
  }
  byId('repeat-key').onclick = (event) => submit(event.target.form, lastTransfer);
}

function buildPanes({ people, relay }) {
  const requested = new URLSearchParams(location.search).get('users')?.split(',') ?? DEFAULT_USERS;
  const known = new Set(people.map((p) => p.id));
  for (const user of new Set(requested.filter((id) => known.has(id)))) {
    const index = panes.length;
    const pane = new Pane({ people, relay, user, onChange });
    panes.push(pane);
    byId('panes').append(pane.element);
    const button = document.createElement('button');
    button.type = 'button';
    button.onclick = () => showPane(index);
    document.querySelector('.switch').append(button);
  }
  showPane(0);
  drawCounters();
}

function openForms() {
  const wide = matchMedia('(min-width: 720px)');
  const follow = () => {
    for (const card of document.querySelectorAll('.forms details')) card.open = wide.matches;
  };
  wide.onchange = follow;
  follow();
}

async function start() {
  openForms();
  const config = await get('config');
  setNames(config);
  fillForms(config);
  wireForms();
  byId('psql').textContent = config.psql;
  buildPanes(config);
}

start().catch((error) => {
  document.querySelector('.lead').textContent = `Could not start the demo: ${error.message}`;
});
