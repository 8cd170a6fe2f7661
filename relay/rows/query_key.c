/* query_key.c: builds the key of the rows that a request addresses. */
#include "rows/query_key.h"

#include <stdlib.h>
#include <string.h>

#define KEY_MAX 65536

static enum rc
add_text(struct buffer *out, const char *text)
{
    return buffer_add(out, text, strlen(text) + 1);
}

static enum rc
add_user(const struct rows_wanted *wanted, struct buffer *out)
{
    enum rc rc = add_text(out, "user");

    if (rc == RC_OK)
        rc = add_text(out, wanted->user);
    return rc == RC_OK ? add_text(out, wanted->groups) : rc;
}

static enum rc
make_key(const struct rows_wanted *wanted, const struct known_rule *rules, struct query_key *key)
{
    const struct known_rule *rule;
    enum rc rc = add_text(&key->text, wanted->source);

    if (rc == RC_OK)
        rc = add_text(&key->text, wanted->rule);
    if (rc != RC_OK)
        return rc;
    rule = known_rule_find(rules, key->text.bytes, key->text.len);
    key->is_known = rule != NULL;
    key->is_of_user = rule == NULL || strcmp(rule->audience, "ALL") != 0;
    return key->is_of_user ? add_user(wanted, &key->text) : add_text(&key->text, "all");
}

struct query_key
query_key_new(const struct rows_wanted *wanted, const struct known_rule *rules)
{
    struct query_key key = {.is_known = false};

    buffer_init(&key.text, KEY_MAX);
    if (make_key(wanted, rules, &key) != RC_OK)
        abort(); /* the strings of a token are far shorter */
    return key;
}
