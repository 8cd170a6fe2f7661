// peer.js: node `ws` or socket.io as servers of the bench: peer.js ws|socketio PORT CONTROL_PORT
const net = require('net');
const http = require('http');
const [kind, port, controlPort] = process.argv.slice(2);

let text = '';
const body = (bytes) => (text.length === bytes ? text : (text = 'x'.repeat(bytes)));
const sockets = [];
let toAll;
let toEach;
const server = http.createServer();

if (kind === 'ws') {
  const { WebSocketServer } = require('ws');
  const peer = new WebSocketServer({ server, perMessageDeflate: false, clientTracking: false });
  peer.on('connection', (socket) => sockets.push(socket));
  toAll = toEach = (message) => { for (const socket of sockets) socket.send(message); };
} else {
  const { Server } = require('socket.io');
  const io = new Server(server, { transports: ['websocket'], perMessageDeflate: false, pingInterval: 300000 });
  io.on('connection', (socket) => sockets.push(socket));
  toAll = (message) => io.emit('m', message);
  toEach = (message) => { for (const socket of sockets) socket.emit('m', message); };
}
server.listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 });

net.createServer((control) => {
  let rest = '';
  control.on('data', (chunk) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const [what, count, bytes] = line.split(' ');
      for (let i = 0; i < Number(count); i++) (what === 'all' ? toAll : toEach)(body(Number(bytes)));
    }
  });
  control.on('close', () => process.exit(0));
}).listen({ port: Number(controlPort), host: '127.0.0.1' }, () => console.log('ready'));
