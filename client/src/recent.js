// recent.js: the last messages, for a tab that was away for a moment.

const MAX_CHARACTERS = 1_000_000;

/** `start`: the place before the first message. */
export function createRecent(start) {
  const entries = []; // [frame, length], oldest first
  let characters = 0;

  /** `length`: of the frame's line. */
  function remember(frame, length) {
    entries.push([frame, length]);
    characters += length;
    while (characters > MAX_CHARACTERS) {
      const [oldest, itsLength] = entries.shift();
      characters -= itsLength;
      start = oldest.pos;
    }
  }

  /** The messages behind the first at `pos`; undefined when that place is not known any more. */
  function since(pos) {
    const at = [start, ...entries.map(([frame]) => frame.pos)].indexOf(pos);
    return at < 0 ? undefined : entries.slice(at).map(([frame]) => frame);
  }

  return { remember, since };
}
