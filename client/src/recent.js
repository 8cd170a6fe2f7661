// recent.js: the last messages, for a tab that was away for a moment.

const MAX_MESSAGES = 256;
const MAX_CHARACTERS = 1_000_000;

export class Recent {
  #start; // the place before the oldest message
  #entries = []; // { frame, size }, oldest first
  #characters = 0;

  constructor(start) {
    this.#start = start;
  }

  /** `size`: the length of the frame's line. */
  push(frame, size) {
    this.#entries.push({ frame, size });
    this.#characters += size;
    while (this.#entries.length > MAX_MESSAGES || this.#characters > MAX_CHARACTERS) {
      const oldest = this.#entries.shift();
      this.#characters -= oldest.size;
      this.#start = oldest.frame.pos;
    }
  }

  /** The messages behind `pos`; undefined when that place is not known any more. */
  after(pos) {
    const frames = this.#entries.map(({ frame }) => frame);
    if (pos === this.#start) return frames;
    const at = frames.findIndex((frame) => frame.pos === pos);
    return at < 0 ? undefined : frames.slice(at + 1);
  }
}
