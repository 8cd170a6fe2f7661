// recent.js: the last messages, for a tab that was away for a moment.

const MAX_MESSAGES = 256;
const MAX_CHARACTERS = 1_000_000;

/** `start`: the place before the first message. */
export function createRecent(start) {
  const entries = []; // { frame, length }, oldest first
  let characters = 0;

  /** `length`: of the frame's line. */
  function push(frame, length) {
    entries.push({ frame, length });
    characters += length;
    while (entries.length > MAX_MESSAGES || characters > MAX_CHARACTERS) {
      const oldest = entries.shift();
      characters -= oldest.length;
      start = oldest.frame.pos;
    }
  }

  /** The messages behind the first at `pos`; undefined when that place is not known any more. */
  function after(pos) {
    const places = [start, ...entries.map(({ frame }) => frame.pos)];
    const at = places.indexOf(pos);
    return at < 0 ? undefined : entries.slice(at).map(({ frame }) => frame);
  }

  return { push, after };
}
