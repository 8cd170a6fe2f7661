// client.mjs: connects to the relay as a user's page does, and prints what it receives, one JSON document a line.
//
//   TOKEN=.. node --experimental-websocket client.mjs http://localhost:8080
import { connect } from '../../client/dist/index.js';

const print = (kind, value) => console.log(JSON.stringify({ kind, value }));
const clairon = connect({ url: process.argv[2], token: process.env.TOKEN });
clairon.on('state', ({ state, resumed }) => print('state', { state, resumed }));
clairon.on('gap', (gap) => print('gap', gap));
clairon.on('assignments', ({ payload }) => print('title', payload.after.title));
