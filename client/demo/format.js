// format.js: formats notifications, times and amounts; independent of the page.

/** Converts an ISO 8601 time to microseconds since 1970; Date has only milliseconds. */
function micros(iso) {
  const fraction = /\.(\d+)/.exec(iso)?.[1] ?? '';
  const whole = Date.parse(iso.replace(/\.\d+/, ''));
  return whole * 1000 + Number(fraction.slice(0, 6).padEnd(6, '0'));
}

/** Milliseconds since the commit. */
export function latencyOf(n) {
  const now = (performance.timeOrigin + performance.now()) * 1000;
  return (now - micros(n.metadata.timestamp)) / 1000;
}

export function milliseconds(value) {
  if (value < 0) return 'clock skew'; // the clocks of browser and database differ
  if (value < 100) return `${value.toFixed(1)} ms`;
  if (value < 10_000) return `${Math.round(value)} ms`;
  return `${Math.round(value / 1000)} s`;
}

/** Delay until the next attempt, in whole seconds. */
export function pause(ms) {
  return ms < 1000 ? 'reconnecting' : `next attempt in ${Math.round(ms / 1000)} s`;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

export function money(value) {
  return Number(value).toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

export function signed(value) {
  return `${value < 0 ? '−' : '+'}${money(Math.abs(value))}`;
}

const names = new Map(); // id of a person, an establishment or an account -> name

export function setNames({ people, establishments, accounts }) {
  for (const { id, name } of [...people, ...establishments]) names.set(id, name);
  for (const { id, owner } of accounts) names.set(id, `account of ${nameOf(owner)}`);
}

export function nameOf(id) {
  return names.get(id) ?? id;
}

const IN_WORDS = {
  assignments(row, before) {
    if (!before || before.status === row.status) return `${row.title}: ${graded(row)}`;
    return `${row.title}: ${before.status} → ${graded(row)}`;
  },
  members(row, before, operation) {
    const who = nameOf(row.user_id);
    const establishment = nameOf(row.establishment_id);
    if (operation === 'delete') return `${who} left ${establishment}`;
    const was = before?.role && before.role !== row.role ? `${before.role} → ` : '';
    return `${who} in ${establishment}: ${was}${row.role}`;
  },
  announcements: (row) => row.title,
  message: ({ from, text }) => `${nameOf(from)}: ${text}`,
  account(row, before) {
    const move = before?.balance === undefined ? '' : ` (${signed(row.balance - before.balance)})`;
    return `${nameOf(row.id)}: ${money(row.balance)}${move}`;
  },
};

function graded(row) {
  return row.grade === null || row.grade === undefined ? row.status : `${row.status}, ${row.grade}/20`;
}

/** Describes the change in one line; rows of unknown tables as JSON. */
export function inWords(n) {
  const { before, after } = n.payload;
  const row = after ?? before ?? n.payload;
  const words = IN_WORDS[n.metadata.source];
  if (words) return words(row, after ? before : null, n.metadata.operation);
  return JSON.stringify(row);
}
