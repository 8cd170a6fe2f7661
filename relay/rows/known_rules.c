/* known_rules.c: the audiences of live rules, taken from earlier results. */
#include "rows/known_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

size_t
known_rule_len(const char *key)
{
    size_t source_len = strlen(key) + 1;

    return source_len + strlen(key + source_len) + 1;
}

struct known_rule *
known_rule_find(const struct known_rule *rules, const char *key, size_t len)
{
    struct known_rule *rule;

    HASH_FIND(hh, rules, key, len, rule);
    return rule;
}

bool
known_rule_set(struct known_rule **rules, const char *key, const char *audience)
{
    size_t len = known_rule_len(key);
    struct known_rule *rule = known_rule_find(*rules, key, len);

    if (rule != NULL && strcmp(rule->audience, audience) == 0)
        return false;
    if (rule != NULL)
        known_rule_remove(rules, rule);
    if (HASH_COUNT(*rules) >= KNOWN_RULES_MAX)
        known_rules_free(rules);
    rule = memory_new(sizeof(*rule) + len);
    rule->audience = memory_text(audience, strlen(audience));
    rule->key_len = len;
    memcpy(rule->key, key, len);
    HASH_ADD(hh, *rules, key, len, rule);
    return true;
}

void
known_rule_remove(struct known_rule **rules, struct known_rule *rule)
{
    HASH_DEL(*rules, rule);
    free(rule->audience);
    free(rule);
}

void
known_rules_free(struct known_rule **rules)
{
    while (*rules != NULL)
        known_rule_remove(rules, *rules);
}
