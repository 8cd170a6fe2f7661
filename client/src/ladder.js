// ladder.js: which transport to try next: the best that gets through.

const TRIES = 2;
const CLIMB_MS = 15_000;
const CLIMB_CAP_MS = 1_800_000;

/** Goes down a rung after two failures in a row, and asks after a while to be tried from the top. */
export class Ladder {
  /** `rungs`: names of transports, the best first. */
  constructor(rungs) {
    this.rungs = rungs;
    this.at = 0;
    this.failures = 0;
    this.climbMs = CLIMB_MS;
  }

  get rung() {
    return this.rungs[this.at];
  }

  get isTop() {
    return this.at === 0;
  }

  opened() {
    this.failures = 0;
    if (this.isTop) this.climbMs = CLIMB_MS;
  }

  /** `isMute`: nobody answered. Another rung is then worth a try, but no rung two. */
  failed(isMute = false) {
    this.failures += 1;
    if (this.failures < TRIES && !isMute) return;
    this.failures = 0;
    this.at = (this.at + 1) % this.rungs.length;
  }

  top() {
    this.at = 0;
    this.failures = 0;
  }

  /** Milliseconds until the next attempt from the top; each one waits twice as long. */
  nextClimb() {
    const wait = this.climbMs;
    this.climbMs = Math.min(this.climbMs * 2, CLIMB_CAP_MS);
    return wait;
  }
}
