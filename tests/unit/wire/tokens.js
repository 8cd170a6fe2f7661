// tokens.js: prints tokens.h: keys, and tokens shaped like those of identity providers, for
// test_key_set.c. Run: node tests/unit/wire/tokens.js >tests/unit/wire/tokens.h
'use strict';
const crypto = require('node:crypto');

const NOW = 1795230000;
const encode = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

function pair(type, options, members) {
    const { publicKey, privateKey } = crypto.generateKeyPairSync(type, options);
    return { privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), ...members } };
}

function sign(algorithm, key, claims, header = {}) {
    const text = `${encode({ alg: algorithm, typ: 'JWT', kid: key.jwk.kid, ...header })}.${encode(claims)}`;
    const bits = algorithm === 'EdDSA' ? null : `sha${algorithm.slice(2)}`;
    const options = { key: key.privateKey, dsaEncoding: 'ieee-p1363' };
    if (algorithm.startsWith('PS')) {
        options.padding = crypto.constants.RSA_PKCS1_PSS_PADDING;
        options.saltLength = crypto.constants.RSA_PSS_SALTLEN_DIGEST;
    }
    return `${text}.${crypto.sign(bits, Buffer.from(text), options).toString('base64url')}`;
}

const rsa = pair('rsa', { modulusLength: 2048 }, { kid: 'rsa', use: 'sig' });
const p256 = pair('ec', { namedCurve: 'P-256' }, { kid: 'p256', key_ops: ['verify'] });
const p384 = pair('ec', { namedCurve: 'P-384' }, { kid: 'p384' });
const ed25519 = pair('ed25519', {}, { kid: 'ed25519', use: 'sig', alg: 'EdDSA' });
const short = pair('rsa', { modulusLength: 1024 }, { kid: 'short' });
const encryption = pair('rsa', { modulusLength: 2048 }, { kid: 'encryption', use: 'enc' });
const pss = pair('rsa', { modulusLength: 2048 }, { kid: 'pss', alg: 'PS256' });
const secret = crypto.randomBytes(32).toString('base64url');
const oct = { kty: 'oct', kid: 'oct', k: secret, alg: 'HS256' };
const claims = { sub: 'u42', exp: NOW + 600 };

function hmac(header, key) {
    const text = `${encode(header)}.${encode(claims)}`;
    return `${text}.${crypto.createHmac('sha256', key).update(text).digest('base64url')}`;
}

const out = {
    JWKS: JSON.stringify({ keys: [rsa, p256, p384, ed25519, short, encryption, pss].map((key) => key.jwk).concat(
        [oct, { kty: 'EC', crv: 'P-521', kid: 'p521', x: 'AA', y: 'AA' }, { kty: 'new', kid: 'new' }, 7]) }),
    JWKS_OF_TWO: JSON.stringify({ keys: [p256.jwk, p384.jwk] }),
};
for (const name of ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'])
    out[`TOKEN_${name}`] = sign(name, rsa, claims);
out.TOKEN_ES256 = sign('ES256', p256, claims);
out.TOKEN_ES384 = sign('ES384', p384, claims);
out.TOKEN_EDDSA = sign('EdDSA', ed25519, claims);
out.TOKEN_HS256 = hmac({ alg: 'HS256', kid: 'oct' }, Buffer.from(secret, 'base64url'));
out.TOKEN_NO_KID = sign('ES256', p256, claims, { kid: undefined });
out.TOKEN_NO_KID_RSA = sign('RS256', rsa, claims, { kid: undefined });
out.TOKEN_OTHER_KID = sign('ES256', p256, claims, { kid: 'p384' });
out.TOKEN_UNKNOWN_KID = sign('ES256', p256, claims, { kid: 'next' });
out.TOKEN_NUMBER_KID = sign('ES256', p256, claims, { kid: 7 });
out.TOKEN_SHORT = sign('RS256', short, claims);
out.TOKEN_ENCRYPTION = sign('RS256', encryption, claims);
out.TOKEN_PSS_KEY_RS256 = sign('RS256', pss, claims);
out.TOKEN_PSS_KEY_PS256 = sign('PS256', pss, claims);
out.TOKEN_CRIT = sign('ES256', p256, claims, { crit: ['exp'] });
const stranger = pair('ec', { namedCurve: 'P-256' }, {});
out.TOKEN_EMBEDDED = sign('ES256', stranger, claims, {
    jwk: stranger.jwk, jku: 'http://127.0.0.1:1/jwks', x5u: 'http://127.0.0.1:1/', x5c: ['AA=='], kid: 'p256' });
out.TOKEN_NONE = `${encode({ alg: 'none', kid: 'p256' })}.${encode(claims)}.AA`;
out.TOKEN_CONFUSED = hmac({ alg: 'HS256', kid: 'rsa' },
    crypto.createPublicKey({ key: rsa.jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' }));

// Access tokens of providers.
out.TOKEN_KEYCLOAK = sign('RS256', rsa, {
    exp: NOW + 300, iat: NOW, auth_time: NOW - 5, jti: 'onrtac:0b5a2c9e-8c1f-4f7e-9a42-3f0f5b1d7f11',
    iss: 'https://sso.example.org/realms/app', aud: ['clairon', 'account'], sub: '4f9b6f0e-0d5e-4b56-9d1c-0a8f1c2d3e4f',
    typ: 'Bearer', azp: 'web', sid: 'f3b1a1f6-2f43-4e2e-8a77-2d4f0e5b6c7d', acr: '1', 'allowed-origins': ['https://app.example.org'],
    realm_access: { roles: ['offline_access', 'nurse'] },
    resource_access: { clairon: { roles: ['reader'] }, account: { roles: ['manage-account'] } },
    scope: 'openid profile', email_verified: true, preferred_username: 'ada', groups: ['/ward/7'] });
out.TOKEN_AUTH0 = sign('RS256', rsa, {
    'https://app.example.org/roles': ['nurse'], iss: 'https://tenant.eu.auth0.com/', sub: 'auth0|5f7c8ec7c33c6c004bbafe82',
    aud: ['https://clairon.example.org', 'https://tenant.eu.auth0.com/userinfo'], iat: NOW, exp: NOW + 86400,
    azp: 'my_client_id', scope: 'openid profile email', permissions: ['read:rows'] }, { typ: 'at+jwt' });
out.TOKEN_ENTRA = sign('RS256', rsa, {
    aud: '6e74172b-be56-4843-9ff4-e66a39bb12e3', iss: 'https://login.microsoftonline.com/72f988bf-86f1-41af-91ab-2d7cd011db47/v2.0',
    iat: NOW, nbf: NOW, exp: NOW + 3600, azp: 'c44b4083-3bb0-49c1-b47d-974e53cbdf3c', azpacr: '1', name: 'Ada',
    oid: '690222be-ff1a-4d56-abd1-7e4f7d38e474', preferred_username: 'ada@example.org', rh: 'I', roles: ['nurse'],
    groups: ['ab603c56-068a-4a3c-b1ff-1a1c0ab5b1c1'], scp: 'access_as_user', sub: 'HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ',
    tid: '72f988bf-86f1-41af-91ab-2d7cd011db47', uti: 'fqiBqXLPj0eQa82S-IYFAA', ver: '2.0' });
out.TOKEN_OVERAGE = sign('RS256', rsa, { ...claims, _claim_names: { groups: 'src1' }, _claim_sources: { src1: { endpoint: 'https://x/' } } });
out.TOKEN_COGNITO = sign('RS256', rsa, {
    sub: 'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee', 'cognito:groups': ['nurse'], token_use: 'access', client_id: 'xyz', version: 2,
    iss: 'https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_example', jti: 'x', scope: 'openid', username: 'ada',
    auth_time: NOW, iat: NOW, exp: NOW + 3600 });
out.TOKEN_ADMIN = sign('ES256', p256, { ...claims, iss: 'https://sso.example.org/realms/app', aud: 'clairon', admin: true, publish: true });
out.TOKEN_CONTROLS = sign('ES256', p256, { ...claims, sub: 'u\u0085x' });
out.TOKEN_FUTURE = sign('ES256', p256, { ...claims, iat: NOW + 6 });

console.log('/* tokens.h: keys and tokens of tests, printed by tokens.js. */');
console.log('#ifndef CLAIRON_TESTS_TOKENS_H\n#define CLAIRON_TESTS_TOKENS_H\n\n/* clang-format off */');
for (const [name, text] of Object.entries(out)) {
    const lines = text.match(/.{1,70}/g).map((line) => `    "${line.replace(/"/g, '\\"')}"`);
    console.log(`static const char ${name}[] =\n${lines.join('\n')};`);
}
console.log('/* clang-format on */\n\n#endif');
