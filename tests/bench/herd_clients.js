// herd_clients.js: many WebSocket clients for herd.pl, without a library. They connect simultaneously and request the
// rows of a live rule.
//
//   node herd_clients.js PORT FILE     FILE: JSON { list, tokens: [..], lists, epochs }; `list` has the fields of the request. Prints a line of JSON when each
//                                      client has received its rows `lists` times, and after each of `epochs` changes
//                                      of the epoch, when each client has received its rows again.
//   node herd_clients.js PORT FILE     FILE: JSON { probe: token }. Prints the latency of each notification.

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import net from 'node:net';

const [port, file] = process.argv.slice(2);
const { list, tokens, lists, epochs = 0, probe } = JSON.parse(readFileSync(file));

function frameOf(text) {
  const body = Buffer.from(text);
  const header = body.length < 126 ? Buffer.from([0x81, 0x80 | body.length]) : Buffer.from([0x81, 0xFE, body.length >> 8, body.length & 255]);
  return Buffer.concat([header, Buffer.alloc(4), body]); // the mask is 0
}

// The rows are not parsed, because that would cost more CPU than the relay needs.
function parse(line) {
  return line.startsWith('{"t":"rows"') ? { t: 'rows', more: /"more":true(,|}$)/.test(line.slice(-30)) } : JSON.parse(line);
}

function open(token, onFrame) {
  const socket = net.connect(Number(port), '127.0.0.1');
  let rest = Buffer.alloc(0);
  let isOpen = false;
  socket.on('error', () => {});
  socket.write(`GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n`
    + `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\nSec-WebSocket-Protocol: clairon.v1.json\r\n\r\n`);
  const send = (frame) => socket.write(frameOf(JSON.stringify(frame)));
  socket.on('data', (data) => {
    rest = Buffer.concat([rest, data]);
    if (!isOpen) {
      const end = rest.indexOf('\r\n\r\n');
      if (end < 0) return;
      if (!rest.toString('latin1', 0, 20).includes(' 101 ')) { onFrame({ t: 'rejected' }); socket.destroy(); return; }
      rest = rest.subarray(end + 4);
      isOpen = true;
      send({ t: 'connect', r: 1, token });
    }
    for (;;) {
      if (rest.length < 2) return;
      const short = rest[1] & 127;
      const header = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (rest.length < header) return;
      const size = short < 126 ? short : short === 126 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2));
      if (rest.length < header + size) return;
      const text = rest.toString('utf8', header, header + size);
      const isText = (rest[0] & 15) === 1;
      rest = rest.subarray(header + size);
      for (const line of isText ? text.split('\n') : []) if (line) onFrame(parse(line), send);
    }
  });
  return socket;
}

const SPREAD_MS = 1000; // of the client package

function herd() {
  let began = Date.now();
  let counts;
  let times;
  let half;
  let isComplete; // all clients have their rows
  let left = epochs;
  const start = () => { counts = { busy: 0, rejected: 0, errors: 0 }; times = []; half = undefined; isComplete = false; };
  start();
  const request = (send) => send({ t: 'rows', r: 2, ...list });
  function one(token) {
    let count = lists;
    open(token, (frame, send) => {
      if (frame.t === 'connected') request(send);
      if (frame.t === 'ping') send({ t: 'pong' });
      if (frame.t === 'gap' && frame.why === 'epoch') {
        if (isComplete) { start(); began = Date.now(); }
        count = lists;
        setTimeout(request, SPREAD_MS * Math.random(), send);
      }
      if (frame.t === 'rejected') { counts.rejected += 1; setTimeout(one, 500 + Math.random() * 500, token); }
      if (frame.t === 'err' && frame.code === 111) { counts.busy += 1; setTimeout(request, frame.after * (1 + Math.random()), send); }
      else if (frame.t === 'err') { counts.errors += 1; counts.text = frame.msg; }
      if (frame.t !== 'rows' || frame.more) return;
      count -= 1;
      if (count > 0) request(send);
      else done();
    });
  }
  function done() {
    times.push(Date.now() - began);
    if (times.length === tokens.length / 2) half = times.at(-1);
    if (times.length < tokens.length) return;
    console.log(JSON.stringify({ ms: times.at(-1), half, most: times[Math.floor(0.99 * times.length)], ...counts }));
    isComplete = true;
    left -= 1;
    if (left < 0) process.exit(0);
  }
  setTimeout(() => { console.log(JSON.stringify({ served: times.length, ...counts })); process.exit(1); }, 120_000 * (1 + epochs));
  tokens.forEach(one);
}

if (tokens) {
  herd();
} else {
  open(probe, ({ t, n }, send) => {
    if (t === 'ping') send({ t: 'pong' });
    if (t === 'msg') console.log(Date.now() - Date.parse(n.metadata.timestamp));
  });
}
