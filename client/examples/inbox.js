// inbox.js: an inbox with an unread count, the same on all devices of the user. Its table: sql/examples/inbox.sql.

import { connect } from '../dist/index.js';
import { showBell } from './bell.js';
import { post, relay, token, user } from './login.js';

const clairon = connect({ url: await relay(), token, topics: 'demo.inbox' });

showBell(document.getElementById('bell'), clairon.live('inbox'), (last) => post('read', { user, last }));

for (const box of document.querySelectorAll('input')) {
  box.onchange = () => post('mute', { user, kind: box.value, isMuted: box.checked });
}
