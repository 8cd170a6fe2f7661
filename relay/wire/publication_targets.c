/* publication_targets.c: parses the audience of a notification published over HTTP. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/memory.h"
#include "wire/audience.h"
#include "wire/publication_private.h"

static bool
has_target(const struct publication *publication, const char *target)
{
    for (size_t i = 0; i < publication->target_count; i++) {
        if (strcmp(publication->targets[i], target) == 0)
            return true;
    }
    return false;
}

static int
order_of_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Drops duplicates. A long list is sorted first, to avoid quadratic time. */
static void
drop_repeated(struct publication *publication)
{
    size_t kept = 0;

    qsort(publication->targets, publication->target_count, sizeof(publication->targets[0]),
          order_of_texts);
    for (size_t i = 0; i < publication->target_count; i++) {
        if (kept > 0 && strcmp(publication->targets[kept - 1], publication->targets[i]) == 0)
            free(publication->targets[i]);
        else
            publication->targets[kept++] = publication->targets[i];
    }
    publication->target_count = kept;
}

/* In canonical form. */
static enum rc
read_composite(struct publication_draft *draft, const json_t *target, size_t index, char **ret_text)
{
    const char *audience = draft->publication->audience;
    const char *text = json_string_value(target);
    unsigned char canonical[AUDIENCE_COMPOSITE_MAX];
    struct audience_parts parts = {.count = 0};

    if (text == NULL ||
        !audience_split((struct bytes){(const unsigned char *)audience, strlen(audience)},
                        (struct bytes){(const unsigned char *)text, json_string_length(target)},
                        &parts))
        return publication_reject(draft,
                                  "routing.audience.targets must hold texts of as many parts as "
                                  "%.60s, joined by +, each of 1 to %d bytes; the one at index %zu "
                                  "is not",
                                  audience, AUDIENCE_TARGET_MAX, index);
    *ret_text = memory_text((const char *)canonical, audience_join_parts(&parts, canonical));
    return RC_OK;
}

static enum rc
read_target(struct publication_draft *draft, const json_t *target, size_t index, char **ret_text)
{
    size_t len = json_is_string(target) ? json_string_length(target) : 0;

    if (strchr(draft->publication->audience, '+') != NULL)
        return read_composite(draft, target, index, ret_text);
    if (len == 0 || len > NAME_MAX_BYTES)
        return publication_reject(draft,
                                  "routing.audience.targets must hold texts of 1 to %d bytes; "
                                  "the one at index %zu is not",
                                  NAME_MAX_BYTES, index);
    *ret_text = memory_text(json_string_value(target), len);
    return RC_OK;
}

#define FEW_TARGETS 64 /* order is preserved */

enum rc
publication_parse_targets(struct publication_draft *draft, const json_t *targets)
{
    struct publication *publication = draft->publication;
    size_t count = json_array_size(targets);
    bool are_few = count <= FEW_TARGETS;

    if (!json_is_array(targets) || count == 0 || count > PUBLICATION_TARGETS_MAX)
        return publication_reject(draft, "routing.audience.targets must be an array of 1 to %d",
                                  PUBLICATION_TARGETS_MAX);
    publication->targets = memory_new(count * sizeof(char *));
    for (size_t i = 0; i < count; i++) {
        char *target = NULL;

        if (read_target(draft, json_array_get(targets, i), i, &target) != RC_OK)
            return RC_BAD;
        if (are_few && has_target(publication, target))
            free(target);
        else
            publication->targets[publication->target_count++] = target;
    }
    if (!are_few)
        drop_repeated(publication);
    return RC_OK;
}
