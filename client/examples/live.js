// live.js: a table on the screen that is always the table in the database.

import { connect } from '../dist/index.js';
import { assignments, relay, token } from './login.js';

const clairon = connect({ url: await relay(), token });

// load() brings the rows at first, and again when something was missed.
const list = clairon.live('assignments', { key: 'id', load: assignments });

list.subscribe((rows) => {
  const lines = rows.map(({ id, title, status }) => {
    const line = document.createElement('tr');
    for (const value of [id, title, status]) line.insertCell().textContent = value;
    return line;
  });
  document.getElementById('rows').replaceChildren(...lines);
});
