// login.js: replace it by your own login. It uses the demo's application server, which `make demo` starts.

/** The id of the signed-in user. */
export const user = new URLSearchParams(location.search).get('user') ?? 'u1';

async function request(path, options) {
  const response = await fetch(path, options);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

/** Sends a command to the application server. */
export async function post(command, body) {
  return request(`/api/${command}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
}

/** The URL of the relay; `?relay=` overrides it. */
export async function relay() {
  return new URLSearchParams(location.search).get('relay') ?? (await request('/api/config')).relay;
}

/** Returns a function that returns the name of a user. */
export async function names() {
  const { people } = await request('/api/config');
  return (id) => people.find((person) => person.id === id)?.name ?? id;
}

/** A fresh token for the signed-in user. */
export async function token() {
  return (await post('token', { user })).token;
}
