/* query_key.c: builds the key of the rows that a request addresses. */
#include "rows/query_key.h"

#include <stdlib.h>
#include <string.h>

#include "wire/audience.h"

#define KEY_MAX 65536
#define GROUPS_MAX 32768 /* longer groups: the client does not share results */

static enum rc
add_text(struct buffer *out, const char *text)
{
    return buffer_add(out, text, strlen(text) + 1);
}

/* In a key whose rows are selected by groups, this follows the rule. */
#define GROUPS_MARK "groups"

/* Adds the groups that select the rows. RC_AGAIN, RC_LIMIT: the key must name the user. */
static enum rc
add_groups(const struct rows_events *events, void *ctx, const char *audience, struct buffer *out)
{
    struct buffer groups;
    enum rc rc;

    buffer_init(&groups, GROUPS_MAX);
    rc = events->add_groups(ctx, audience, &groups);
    if (rc == RC_OK)
        rc = add_text(out, GROUPS_MARK);
    if (rc == RC_OK)
        rc = add_text(out, audience);
    if (rc == RC_OK)
        rc = buffer_add(out, groups.bytes, groups.len);
    buffer_free(&groups);
    return rc;
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
make_key(const struct rows_wanted *wanted, const struct rows_events *events, void *ctx,
         const struct known_rule *rules, struct query_key *key)
{
    const struct known_rule *rule;
    enum rc rc = add_text(&key->text, wanted->source);

    if (rc == RC_OK)
        rc = add_text(&key->text, wanted->rule);
    if (rc != RC_OK)
        return rc;
    rule = known_rule_find(rules, key->text.bytes, key->text.len);
    key->is_known = rule != NULL;
    if (rule != NULL && strcmp(rule->audience, "ALL") == 0)
        return add_text(&key->text, "all");
    if (rule != NULL && !audience_is_reserved(rule->audience) &&
        add_groups(events, ctx, rule->audience, &key->text) == RC_OK)
        return RC_OK;
    key->is_of_user = true;
    return add_user(wanted, &key->text);
}

struct query_key
query_key_new(const struct rows_wanted *wanted, const struct rows_events *events, void *ctx,
              const struct known_rule *rules)
{
    struct query_key key = {.is_known = false};

    buffer_init(&key.text, KEY_MAX);
    if (make_key(wanted, events, ctx, rules, &key) != RC_OK)
        abort(); /* the strings of a token are far shorter */
    return key;
}

bool
query_key_has_groups(const char *key, size_t len, const struct rows_header *header)
{
    const char *mark = key + known_rule_len(key);
    const char *audience = mark + sizeof(GROUPS_MARK);
    const char *groups;

    if (strcmp(mark, GROUPS_MARK) != 0)
        return true;
    groups = audience + strlen(audience) + 1;
    return rows_header_has_groups(header, groups, (size_t)(key + len - groups));
}
