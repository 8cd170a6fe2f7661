// ladder.js: which transport to try next: the best that gets through.

const TRIES = 2;
const CLIMB_MS = 15_000;
const CLIMB_CAP_MS = 1_800_000;

/**
 * Goes down a rung after two failures in a row, and asks after a while to be tried from the top.
 * `rungs`: names of transports, the best first.
 */
export function createLadder(rungs) {
  let at = 0;
  let failures = 0;
  let climbMs = CLIMB_MS;

  /** Milliseconds until the next attempt from the top, each twice the last; 0: it is the top. */
  function opened() {
    failures = 0;
    const wait = at && climbMs;
    climbMs = at ? Math.min(climbMs * 2, CLIMB_CAP_MS) : CLIMB_MS;
    return wait;
  }

  /** `isMute`: nobody answered. Another rung is then worth a try, but no rung two. */
  function failed(isMute) {
    failures += 1;
    if (failures < TRIES && !isMute) return;
    failures = 0;
    at = (at + 1) % rungs.length;
  }

  function climb() {
    at = 0;
    failures = 0;
  }

  return { rung: () => rungs[at], opened, failed, climb };
}
