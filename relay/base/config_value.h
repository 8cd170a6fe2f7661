/* config_value.h: parses a value into its field. */
#ifndef CLAIRON_BASE_CONFIG_VALUE_H
#define CLAIRON_BASE_CONFIG_VALUE_H

#include "base/config.h"
#include "base/config_key.h"

#define CONFIG_REASON_MAX 512

/* Parses "25s", "500 ms", "7d" or "0" into milliseconds. */
MUST_CHECK enum rc config_value_duration(const char *text, int64_t *ret_ms);

/*
 * Sets the field. An empty string unsets a key that has no default. RC_BAD: `reason` describes
 * valid values; it does not quote the invalid value, which may be a secret.
 */
MUST_CHECK enum rc config_value_set(struct config *config, const struct config_key *key,
                                    const char *text, char reason[CONFIG_REASON_MAX]);

/* Describes a valid value: "a duration from 1s to 1h in ms, s, m, h or d". */
void config_value_describe(const struct config_key *key, char *text, size_t room);

#endif
