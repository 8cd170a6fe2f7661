// sent.js: the messages that a user has sent, each with the users who have read it. Their tables: sql/examples/message.sql.

/**
 * Shows the messages in `element`, a list, the newest first. `messages` is the live list of the sent messages, with id, text,
 * sent_at and recipients; `receipts` the live list of `clairon.receipt`. `nameOf(user)` returns the name of a user.
 */
export function showSent(element, messages, receipts, nameOf = (user) => user) {
  function draw() {
    const newest = [...messages.rows].sort((a, b) => (a.sent_at < b.sent_at ? 1 : -1)).slice(0, 5);
    element.replaceChildren(...newest.map((message) => drawMessage(message, readersOf(message.id))));
  }

  const readersOf = (id) => receipts.rows
    .filter(({ notification, user_id: user, outcome }) => notification === id && user !== '' && outcome === 'acked')
    .map(({ user_id: user }) => nameOf(user));

  messages.subscribe(draw);
  receipts.subscribe(draw);
}

function drawMessage({ id, text, recipients }, readers) {
  const item = document.createElement('li');
  item.dataset.message = id;
  const read = document.createElement('small');
  read.textContent = `read by ${readers.length} of ${recipients}${readers.length > 0 ? `: ${readers.sort().join(', ')}` : ''}`;
  item.append(text, ' ', read);
  return item;
}
