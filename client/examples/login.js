// login.js: replace it with your own login. It uses the demo's application server, which `make demo` starts.

const user = new URLSearchParams(location.search).get('user') ?? 'u1';

async function ask(path, options) {
  const answer = await fetch(path, options);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

/** The address of the relay; `?relay=` overrides it. */
export async function relay() {
  return new URLSearchParams(location.search).get('relay') ?? (await ask('/api/config')).relay;
}

/** A fresh token of the signed-in user. */
export async function token() {
  const answer = await ask('/api/token', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ user }),
  });
  return answer.token;
}

/** The user's current assignments. */
export async function assignments() {
  return (await ask(`/api/state?user=${encodeURIComponent(user)}`)).assignments;
}
