/* known_rules.h: the audiences of live rules, taken from earlier results. */
#ifndef CLAIRON_ROWS_KNOWN_RULES_H
#define CLAIRON_ROWS_KNOWN_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include <uthash.h>

#define KNOWN_RULES_MAX 1024

/* A set of known rules is a uthash, which is initially NULL. */
struct known_rule {
    UT_hash_handle hh;
    char *audience;
    size_t key_len;
    char key[]; /* source, zero byte, name, zero byte */
};

/* Returns the length of the rule's key at the start of a longer key. */
size_t known_rule_len(const char *key);

/* Returns the audience of the rule; NULL: the rule is unknown. */
struct known_rule *known_rule_find(const struct known_rule *rules, const char *key, size_t len);

/* `key` starts with the rule's key. True if the audience is new or has changed. */
bool known_rule_set(struct known_rule **rules, const char *key, const char *audience);

void known_rule_remove(struct known_rule **rules, struct known_rule *rule);
void known_rules_free(struct known_rule **rules);

#endif
