// errors.js: errors with fields, and the codes of `err` frames.

/** Result of a list's handler if the list does not contain the change: a reason neither for an ack nor for a nack. */
export const NOT_APPLIED = 'no ack';

export const NOT_ADDRESSED = 103; // or the live rule does not exist
export const UNKNOWN_FRAME = 107; // the relay has an older version
export const EXPIRED = 109; // the token
export const BUSY = 111;
export const TOO_MANY_ROWS = 113;

export const failure = (text, fields) => Object.assign(new Error(text), fields);
