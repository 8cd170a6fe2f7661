// minimal.js: a minimal page: a list of all notifications of the signed-in user.

import { connect } from '../dist/index.js';
import { relay, token } from './login.js';

// By default the client acknowledges a notification when its handler resolves. Here the user clicks a button.
const clairon = connect({ url: await relay(), token, ack: 'manual' });

clairon.on('*', ({ metadata, payload, routing }) => {
  const item = document.createElement('li');
  item.textContent = `${metadata.operation} ${metadata.source}: ${JSON.stringify(payload.after)} `;
  if (routing.retry.ack_required) item.append(acknowledgeButton(metadata.id));
  document.getElementById('messages').prepend(item);
});

function acknowledgeButton(id) {
  const button = document.createElement('button');
  button.textContent = 'Acknowledge';
  button.onclick = () => {
    clairon.ack(id);
    button.remove();
  };
  return button;
}

clairon.on('state', ({ state }) => {
  document.getElementById('state').value = state;
});
