// demand.js: rejects invalid arguments.

/**
 * Returns a function that throws unless its first argument is truthy. `what`: name of the called function, for the
 * message.
 */
export const demandFor = (what) => (isRight, text) => {
  if (!isRight) throw new TypeError(`${what}: ${text}`);
};
