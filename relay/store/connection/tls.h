/* tls.h: TLS for connections to the store, for rediss:// (needs hiredis 1.0). */
#ifndef CLAIRON_STORE_TLS_H
#define CLAIRON_STORE_TLS_H

#include <hiredis/hiredis.h>

#include "base/config.h"
#include "base/rc.h"

#define TLS_ERROR_MAX 256

/*
 * Starts TLS on a new connection, blocking or not. On a blocking connection, the handshake is
 * complete when this function returns. The store's certificate must be signed by store.tls_ca or by
 * a CA of the system, and must match `host`. The files are read at each call, so the next
 * connection uses new files. RC_BAD: `error` is the reason, and `redis` must be freed.
 */
MUST_CHECK enum rc tls_start(const struct config *config, const char *host, redisContext *redis,
                             char error[TLS_ERROR_MAX]);

#endif
