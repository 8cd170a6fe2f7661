// token.js: reads the user from a token.

/**
 * Returns the `sub` of a JWT; undefined if the token is not a JWT. The relay verifies tokens; this function only
 * distinguishes users.
 */
export function subjectOf(token) {
  try {
    const body = atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/'));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(body, (c) => c.charCodeAt()))).sub;
  } catch {} // not a JWT: the user is unknown until `connected`
}
