// messages.js: messages between users: the sender sees their readers, and a closed page receives Web Pushes.

import { connect } from '../dist/index.js';
import { names, post, relay, token, user } from './login.js';
import { showNotify } from './notify.js';
import { showSent } from './sent.js';

const nameOf = await names();
const url = await relay();
const clairon = connect({ url, token, topics: ['demo.message', 'demo.sent_message', 'demo.clairon.receipt'] });

document.getElementById('user').textContent = nameOf(user);
showNotify(document.getElementById('notify'), clairon, async () => {
  const response = await fetch(`${url}/v1/webpush/test`, { method: 'POST', headers: { Authorization: `Bearer ${await token()}` } });
  return response.json();
});
showSent(document.getElementById('sent'), clairon.live('sent_message'), clairon.live('clairon.receipt'), nameOf);

// The client acknowledges a message when it is displayed. Its sender then receives the receipt.
clairon.on('source:message', ({ payload: { from, text } }) => {
  const item = document.createElement('li');
  item.textContent = `${nameOf(from)}: ${text}`;
  document.getElementById('received').prepend(item);
});

document.querySelector('form').onsubmit = async (event) => {
  event.preventDefault();
  await post('message', { user, text: event.target.text.value });
  event.target.reset();
};
