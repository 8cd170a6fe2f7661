// login.js: replace it by your own login. It uses the demo's application server, which `make demo` starts.

const user = new URLSearchParams(location.search).get('user') ?? 'u1';

async function request(path, options) {
  const response = await fetch(path, options);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

/** The URL of the relay; `?relay=` overrides it. */
export async function relay() {
  return new URLSearchParams(location.search).get('relay') ?? (await request('/api/config')).relay;
}

/** A fresh token for the signed-in user. */
export async function token() {
  const response = await request('/api/token', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ user }),
  });
  return response.token;
}
