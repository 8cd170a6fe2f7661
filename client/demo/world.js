// world.js: requests to the application server; notifications come from the relay.

async function bodyOf(response) {
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Error(`the server responded with ${response.status}`);
  }
  if (!response.ok) throw new Error(body.error ?? `the server responded with ${response.status}`);
  return body;
}

export async function get(path) {
  return bodyOf(await fetch(`/api/${path}`));
}

export async function post(path, body) {
  return bodyOf(await fetch(`/api/${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  }));
}
