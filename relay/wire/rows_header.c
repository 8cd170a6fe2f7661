/* rows_header.c: parses the first row of clairon.live_rows(). */
#include "wire/rows_header.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/memory.h"
#include "wire/audience.h"

/* NULL: not an array of 1 to ROWS_KEY_COLUMNS_MAX names. */
static char *
header_key(const json_t *key)
{
    size_t count = json_array_size(key); /* 0: not an array */

    for (size_t i = 0; i < count; i++) {
        if (!json_is_string(json_array_get(key, i)))
            return NULL;
    }
    return count > 0 && count <= ROWS_KEY_COLUMNS_MAX ? json_dumps(key, JSON_COMPACT) : NULL;
}

/* NULL: not a string of 1 to `max` bytes. */
static char *
header_text(const json_t *value, size_t max)
{
    size_t len = json_string_length(value);

    return len > 0 && len <= max ? memory_text(json_string_value(value), len) : NULL;
}

enum rc
rows_header_parse(const char *text, size_t len, struct rows_header *ret_header)
{
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    struct rows_header header = {
        .key = header_key(json_object_get(root, "key")),
        .snapshot_text = header_text(json_object_get(root, "snapshot"), SNAPSHOT_TEXT_MAX),
        .audience = header_text(json_object_get(root, "audience"), AUDIENCE_COMPOSITE_MAX),
    };

    json_decref(root);
    if (header.key == NULL || header.audience == NULL || header.snapshot_text == NULL ||
        snapshot_parse(header.snapshot_text, strlen(header.snapshot_text), &header.snapshot) !=
            RC_OK) {
        rows_header_free(&header);
        return RC_BAD;
    }
    *ret_header = header;
    return RC_OK;
}

void
rows_header_free(struct rows_header *header)
{
    free(header->key);
    free(header->snapshot_text);
    free(header->audience);
    snapshot_free(&header->snapshot);
    *header = (struct rows_header){0};
}
