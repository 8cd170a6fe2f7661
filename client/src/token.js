// token.js: reads the user from a token.

/**
 * Returns the `sub` of a JWT; undefined if the token is not a JWT. The relay verifies tokens; this function only
 * distinguishes users.
 */
export function subjectOf(token) {
  try {
    const body = atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/'));
    return JSON.parse(decodeURIComponent(escape(body))).sub; // escape() makes the bytes of UTF-8 %XX
  } catch {} // not a JWT: the user is unknown until `connected`
}
