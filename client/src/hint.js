// hint.js: a warning about the causes of failed connections. Part of streams.js.

/**
 * A browser does not report to a page why a connection was rejected, so the warning names the likely causes. `reason`
 * may also be the reason of the relay, for example `token expired`.
 */
export function warn(url, reason) {
  const { origin } = globalThis.location ?? {};
  const question = reason.startsWith('connection lost') ? `. Is it the address of a relay${
    origin ? `, and does gate.origins of the relay list ${origin}` : ''}?` : '';
  console.warn(`clairon: cannot connect to ${url}: ${reason}${question}`);
}
