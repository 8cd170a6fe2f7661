// hint.js: a warning about the likely causes of failed connections. Part of streams.js.

/** A browser does not report to a page why a connection was rejected. */
export function warn(url, reason) {
  const { origin } = globalThis.location ?? {};
  console.warn(`clairon: cannot connect to ${url}: ${reason}. Is it the address of a relay`
    + `${origin ? `, and does gate.origins of the relay list ${origin}` : ''}?`);
}
