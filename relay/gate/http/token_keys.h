/*
 * token_keys.h: the keys that verify tokens, of the settings and of the issuers' URLs, which are
 * fetched again when they may have changed.
 */
#ifndef CLAIRON_GATE_HTTP_TOKEN_KEYS_H
#define CLAIRON_GATE_HTTP_TOKEN_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/rc.h"
#include "wire/token.h"

struct ev_loop;
struct gate_keys;
struct store;

/*
 * A fetch of the keys of an issuer has ended, and requests wait for it. The keys of another fetch
 * may have changed as well: without waiting requests it is called only if keys have changed.
 */
typedef void gate_keys_changed(void *ctx, size_t issuer, bool is_fetched);

/*
 * Reads the keys of the settings, which config_load has checked, and fetches those of URLs.
 * `store`: keeps the keys that were fetched, for when a fetch fails; NULL: none.
 */
struct gate_keys *gate_keys_open(struct ev_loop *loop, const struct config *config,
                                 struct store *store, gate_keys_changed *changed, void *ctx);
void gate_keys_close(struct gate_keys *keys); /* accepts NULL */

/* Until the next change. */
const struct token_rules *gate_keys_rules(const struct gate_keys *keys);

/*
 * Fetches the keys of an issuer because one of them is not known, at most once a minute. RC_OK: a
 * fetch is in progress, and its end will be reported. RC_AGAIN: none is due.
 */
MUST_CHECK enum rc gate_keys_fetch(struct gate_keys *keys, size_t issuer);

/* Uses the files that were read again, and fetches the URLs. Keeps the keys of an invalid file. */
void gate_keys_reload(struct gate_keys *keys);

/*
 * Checks the JWK Sets in files, for --check and at the start. RC_BAD: `error` is the reason, of at
 * most `room` bytes.
 */
MUST_CHECK enum rc gate_keys_check(const struct config *config, char *error, size_t room);

#define GATE_KEYS_AGE_MIN_MS ((int64_t)60 * 1000)
#define GATE_KEYS_AGE_MAX_MS ((int64_t)24 * 3600 * 1000)

/* The time for which fetched keys are used, by the Cache-Control header (NULL: none). Pure. */
int64_t gate_keys_age_ms(const char *cache_control);

#endif
