// token.js: reads from a token whose it is.

/**
 * The `sub` of a JWT; undefined when this is none. Nothing is verified: the relay does that. It only
 * tells users apart.
 */
export function subjectOf(token) {
  try {
    const body = atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/'));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(body, (c) => c.charCodeAt()))).sub;
  } catch {} // not a JWT: the user is unknown until `connected`
}
