// openid_provider.js: an OpenID provider on loopback for tests, whose JWK Set rotates, breaks and comes back.
//
//   node openid_provider.js PORT [CERT KEY]
//
// GET /jwks   the JWK Set, depending on `mode`
// POST /set   { mode, keys }: the names of the published keys; mode: ok, garbage, empty, large, redirect, hold
//             (no response until another mode is set), or a status
// POST /sign  { key, alg, header, claims } → a token
//
// A key is generated when its name is used first; its type is the part of the name before the dash: rsa, p256, p384 or
// ed25519. Each GET prints a line.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import {
  constants, createPublicKey, generateKeyPairSync, sign,
} from 'node:crypto';

const [port, certFile, keyFile] = process.argv.slice(2);
const types = {
  rsa: ['rsa', { modulusLength: 2048 }, 'RS256'],
  p256: ['ec', { namedCurve: 'P-256' }, 'ES256'],
  p384: ['ec', { namedCurve: 'P-384' }, 'ES384'],
  ed25519: ['ed25519', {}, 'EdDSA'],
};
const keys = new Map();
const held = [];
let state = { mode: 'ok', keys: [] };

function keyOf(name) {
  const [type, options, alg] = types[name.split('-')[0]];
  if (!keys.has(name)) keys.set(name, { alg, ...generateKeyPairSync(type, options) });
  return keys.get(name);
}

const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

function token({ key: name, alg, header, claims }) {
  const key = keyOf(name);
  const algorithm = alg ?? key.alg;
  const text = `${encode({ typ: 'JWT', alg: algorithm, kid: name, ...header })}.${encode(claims)}`;
  const options = { key: key.privateKey, dsaEncoding: 'ieee-p1363' };
  if (algorithm.startsWith('PS')) {
    options.padding = constants.RSA_PKCS1_PSS_PADDING;
    options.saltLength = constants.RSA_PSS_SALTLEN_DIGEST;
  }
  const digest = algorithm === 'EdDSA' ? null : `sha${algorithm.slice(2)}`;
  return `${text}.${sign(digest, Buffer.from(text), options).toString('base64url')}`;
}

const publicKey = (name) => ({ ...createPublicKey(keyOf(name).privateKey).export({ format: 'jwk' }), kid: name, use: 'sig' });

function respond(response) {
  const set = JSON.stringify({ keys: state.keys.map(publicKey) });
  switch (state.mode) {
    case 'ok': return response.writeHead(200, { 'Cache-Control': 'max-age=3600' }).end(set);
    case 'garbage': return response.writeHead(200).end('<html>sign in</html>');
    case 'empty': return response.writeHead(200).end('{"keys":[]}');
    case 'large': return response.writeHead(200).end(set + ' '.repeat(256 * 1024));
    case 'redirect': return response.writeHead(302, { Location: `http://127.0.0.1:${port}/other` }).end();
    case 'hold': return held.push(response);
    default: return response.writeHead(Number(state.mode)).end();
  }
}

async function serve(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  if (request.method === 'GET') {
    process.stdout.write(`GET ${request.url} ${state.mode}\n`);
    respond(response);
    return;
  }
  const body = JSON.parse(Buffer.concat(chunks));
  if (request.url === '/sign') {
    response.end(token(body));
    return;
  }
  state = { ...state, ...body };
  if (state.mode !== 'hold') held.splice(0).forEach(respond);
  response.end(JSON.stringify({ keys: state.keys.map(publicKey) }));
}

const server = certFile ? createSecureServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, serve) : createServer(serve);
server.listen(Number(port), '127.0.0.1', () => process.stdout.write('started\n'));
