// live.js: an HTML table that shows the user's rows in the database, and is kept up to date.

import { connect } from '../dist/index.js';
import { relay, token } from './login.js';

// Notifications of other tables stay pending until a page handles them.
const clairon = connect({ url: await relay(), token, topics: 'demo.assignments' });

// The rule of this table is live, so the relay sends its rows to the users that the rule addresses.
const list = clairon.live('assignments');

list.subscribe((rows) => {
  const lines = rows.map(({ id, title, status }) => {
    const line = document.createElement('tr');
    for (const value of [id, title, status]) line.insertCell().textContent = value;
    return line;
  });
  document.getElementById('rows').replaceChildren(...lines);
});
