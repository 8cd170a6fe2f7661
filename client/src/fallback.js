// fallback.js: selects the transport of the next attempt: the best transport that works.

const MAX_FAILURES = 2;
const RETRY_BEST_MS = 15_000;
const RETRY_BEST_CAP_MS = 1_800_000;

/**
 * Selects the next transport after two consecutive failures, and schedules attempts with the best transport.
 * `transports`: the names of the transports, the best first.
 */
export function createFallback(transports) {
  let at = 0;
  let failures = 0;
  let retryMs = RETRY_BEST_MS;

  /**
   * Call it when a connection is open. Returns the delay in milliseconds until the next attempt with the best
   * transport, or 0 if the best transport is in use. The delay doubles with each call.
   */
  function opened() {
    failures = 0;
    const wait = at && retryMs;
    retryMs = at ? Math.min(retryMs * 2, RETRY_BEST_CAP_MS) : RETRY_BEST_MS;
    return wait;
  }

  /** `isUnreachable`: no response arrived, so the next transport is selected after one failure. */
  function failed(isUnreachable) {
    failures += 1;
    if (failures < MAX_FAILURES && !isUnreachable) return;
    failures = 0;
    at = (at + 1) % transports.length;
  }

  function retryBest() {
    at = 0;
    failures = 0;
  }

  return { chosen: () => transports[at], opened, failed, retryBest };
}
