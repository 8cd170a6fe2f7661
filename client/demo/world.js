// world.js: requests to the application server; notifications come from the relay.

async function answerOf(response) {
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Error(`the server answered ${response.status}`);
  }
  if (!response.ok) throw new Error(body.error ?? `the server answered ${response.status}`);
  return body;
}

export async function get(path) {
  return answerOf(await fetch(`/api/${path}`));
}

export async function post(path, body) {
  return answerOf(await fetch(`/api/${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  }));
}
