// minimal.js: the least that works: a list of all that is for the signed-in user.

import { connect } from '../dist/index.js';
import { relay, token } from './login.js';

const clairon = connect({ url: await relay(), token });

clairon.on('*', ({ metadata, payload }) => {
  const item = document.createElement('li');
  item.textContent = `${metadata.operation} ${metadata.source}: ${JSON.stringify(payload.after)}`;
  document.getElementById('messages').prepend(item);
});

clairon.on('state', ({ state }) => {
  document.getElementById('state').value = state;
});
