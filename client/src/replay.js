// replay.js: replay buffer: the last notifications, for a tab that was briefly suspended.

const MAX_CHARACTERS = 1_000_000;

/** `start`: the cursor before the first notification. */
export function createReplayBuffer(start) {
  const entries = []; // [frame, length], oldest first
  let characters = 0;

  /** Adds a frame. `length`: number of characters of the frame. */
  function remember(frame, length) {
    entries.push([frame, length]);
    characters += length;
    while (characters > MAX_CHARACTERS) {
      const [oldest, itsLength] = entries.shift();
      characters -= itsLength;
      start = oldest.pos;
    }
  }

  /** Returns the notifications after the cursor `pos`; undefined if the buffer starts later. */
  function since(pos) {
    const at = [start, ...entries.map(([frame]) => frame.pos)].indexOf(pos);
    return at < 0 ? undefined : entries.slice(at).map(([frame]) => frame);
  }

  return { remember, since };
}
