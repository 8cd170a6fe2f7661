/* tls.h: TLS around connections to the store, for rediss:// (needs hiredis 1.0). */
#ifndef CLAIRON_STORE_TLS_H
#define CLAIRON_STORE_TLS_H

#include <hiredis/hiredis.h>

#include "base/config.h"
#include "base/rc.h"

#define TLS_ERROR_MAX 256

/*
 * Begins TLS on a connection that was just opened, blocking or not; a blocking one has ended its
 * handshake when this returns. The store's certificate must be signed by one of store.tls_ca (or
 * of the system's authorities) and name `host`. The files are read at each call, so that new
 * ones serve from the next connection on. RC_BAD: `error` says why, `redis` is of no more use.
 */
MUST_CHECK enum rc tls_start(const struct config *config, const char *host, redisContext *redis,
                             char error[TLS_ERROR_MAX]);

#endif
