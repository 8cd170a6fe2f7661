// live.js: an HTML table that follows the user's rows in the database.

import { connect } from '../dist/index.js';
import { assignments, relay, token } from './login.js';

const clairon = connect({ url: await relay(), token });

// load() returns the rows as they are now; called at the start, and when notifications were lost.
const list = clairon.live('assignments', { key: 'id', load: assignments });

list.subscribe((rows) => {
  const lines = rows.map(({ id, title, status }) => {
    const line = document.createElement('tr');
    for (const value of [id, title, status]) line.insertCell().textContent = value;
    return line;
  });
  document.getElementById('rows').replaceChildren(...lines);
});
