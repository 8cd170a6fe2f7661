// push_service.js: a push service of Web Push for tests. It decrypts each request, verifies its VAPID token, and writes one
// line of JSON for each.
//
//   node push_service.js PORT [ORIGIN CERT KEY]
//
// The first line has the keys of a subscription: { p256dh, auth }. The path of an endpoint decides the response:
// /STATUS/.., /STATUS-SECONDS/.. with Retry-After, /once-STATUS/.. at first and then 201, /KEY=<public key>/.. with 403 for all other keys, /hang/.. without a response.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import {
  createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes, verify,
} from 'node:crypto';

const [port, origin = `http://127.0.0.1:${port}`, certFile, keyFile] = process.argv.slice(2);
const keys = createECDH('prime256v1');
keys.generateKeys();
const auth = randomBytes(16);

const seen = new Set(); // URLs of earlier requests

const print = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const derive = (secret, salt, info, length) => Buffer.from(hkdfSync('sha256', secret, salt, info, length));

/** RFC 8291 and RFC 8188, with one record. */
function decrypt(body) {
  const [salt, idLength] = [body.subarray(0, 16), body[20]];
  const sender = body.subarray(21, 21 + idLength);
  const record = body.subarray(21 + idLength);
  if (body.readUInt32BE(16) < record.length) throw new Error('record too long');
  const info = Buffer.concat([Buffer.from('WebPush: info\0'), keys.getPublicKey(), sender]);
  const secret = derive(keys.computeSecret(sender), auth, info, 32);
  const key = derive(secret, salt, 'Content-Encoding: aes128gcm\0', 16);
  const nonce = derive(secret, salt, 'Content-Encoding: nonce\0', 12);
  const cipher = createDecipheriv('aes-128-gcm', key, nonce);
  cipher.setAuthTag(record.subarray(-16));
  const plain = Buffer.concat([cipher.update(record.subarray(0, -16)), cipher.final()]);
  if (plain.at(-1) !== 2) throw new Error('no end of the last record');
  return plain.subarray(0, -1).toString();
}

/** RFC 8292: returns the claims and the key, or throws. */
function vapidOf(authorization) {
  const [, token, key] = /^vapid t=([\w-]+\.[\w-]+\.[\w-]+), k=([\w-]+)$/.exec(authorization);
  const [header, claims, signature] = token.split('.');
  const point = Buffer.from(key, 'base64url');
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((part) => part.toString('base64url'));
  const publicKey = createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' });
  const isValid = verify('sha256', Buffer.from(`${header}.${claims}`), { key: publicKey, dsaEncoding: 'ieee-p1363' },
    Buffer.from(signature, 'base64url'));
  if (!isValid || JSON.parse(Buffer.from(header, 'base64url')).alg !== 'ES256') throw new Error('invalid signature');
  const { aud, exp, sub } = JSON.parse(Buffer.from(claims, 'base64url'));
  const hours = (exp - Date.now() / 1000) / 3600;
  if (aud !== origin || hours <= 0 || hours > 24) throw new Error(`invalid claims: ${aud} ${hours}`);
  return { key, sub, hours: Math.round(hours), token };
}

async function serve(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { method, url, headers } = request;
  const line = { method, url, headers };
  try {
    line.vapid = vapidOf(headers.authorization);
    line.plain = decrypt(Buffer.concat(chunks));
  } catch (error) {
    line.error = String(error);
  }
  print(line);
  let [, how] = url.split('/');
  const once = /^once-(.*)/.exec(how);
  if (once) how = seen.has(url) ? '201' : once[1];
  seen.add(url);
  if (how === 'hang') return;
  const [status, seconds] = how.startsWith('KEY=') ? [how === `KEY=${line.vapid.key}` ? 201 : 403] : how.split('-');
  response.writeHead(Number(status), seconds ? { 'Retry-After': seconds } : {});
  response.end();
}

const server = certFile ? createSecureServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, serve) : createServer(serve);
server.listen(Number(port), '127.0.0.1', () => print({ p256dh: keys.getPublicKey('base64url'), auth: auth.toString('base64url') }));
