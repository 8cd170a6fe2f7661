/* config_value.h: from the text of a value to what the field holds. */
#ifndef CLAIRON_BASE_CONFIG_CONFIG_VALUE_H
#define CLAIRON_BASE_CONFIG_CONFIG_VALUE_H

#include "base/config.h"
#include "base/config/config_key.h"

#define CONFIG_REASON_MAX 512

/* "25s", "500 ms", "7d", "0": milliseconds. */
MUST_CHECK enum rc config_value_duration(const char *text, int64_t *ret_ms);

/*
 * Sets the key's field; an empty text unsets a text that has no default. On
 * RC_BAD `reason` says what the value must be, without the value.
 */
MUST_CHECK enum rc config_value_set(struct config *config, const struct config_key *key,
                                    const char *text, char reason[CONFIG_REASON_MAX]);

/* What a value of this key looks like: "a duration from 1s to 1h in ms, s, m, h or d". */
void config_value_describe(const struct config_key *key, char *text, size_t room);

#endif
