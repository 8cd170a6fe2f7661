import type { Client } from './index.cjs';

export interface WebPushOptions {
  /** URL of the service worker, a copy of `clairon/dist/worker.js` on the page's origin. Default: `/clairon-worker.js`. */
  serviceWorker?: string;
}

/** The error of enable() and disable(). */
export interface WebPushError extends Error {
  /**
   * `unsupported`: the browser has no Web Push (on iPhone and iPad only pages on the Home Screen have it). `denied`: the
   * user does not allow notifications. Otherwise the status of the relay's response; 404: Web Push is off in the relay.
   */
  code?: 'unsupported' | 'denied' | number;
}

/**
 * Registers this browser for Web Push, for the user of the client. Asks for the permission if necessary, so call it
 * first from a click; then at each start of the page while `Notification.permission` is `granted`. Notifications that
 * the user acknowledges elsewhere are closed while the page is open.
 */
export function enable(client: Client, options?: WebPushOptions): Promise<PushSubscription>;

/**
 * Removes the registration of this browser. Call it at logout, before the token becomes invalid: otherwise the next
 * user of a shared computer sees the notifications of this user.
 */
export function disable(client: Client, options?: WebPushOptions): Promise<void>;
