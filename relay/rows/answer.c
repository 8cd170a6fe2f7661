/* answer.c: collects the rows of one query and writes them as pages. */
#include "rows/answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define FIRST_ROOM 64 /* rows */

static const char PAGE_TAIL[] = "],\"more\":false}";

struct rows_answer *
rows_answer_new(size_t most_rows, size_t most_bytes, size_t *held_bytes)
{
    struct rows_answer *answer = memory_new(sizeof(*answer));

    answer->refs = 1;
    answer->most = most_rows;
    answer->held_bytes = held_bytes;
    buffer_init(&answer->rows, most_bytes);
    return answer;
}

struct rows_answer *
rows_answer_ref(struct rows_answer *answer)
{
    answer->refs++;
    return answer;
}

void
rows_answer_unref(struct rows_answer *answer)
{
    if (answer == NULL || --answer->refs > 0)
        return;
    *answer->held_bytes -= answer->bytes;
    rows_header_free(&answer->header);
    buffer_free(&answer->rows);
    free(answer->ends);
    free(answer);
}

static void
grow_ends(struct rows_answer *answer)
{
    if (answer->count < answer->room)
        return;
    answer->room = answer->room > 0 ? answer->room * 2 : FIRST_ROOM;
    answer->ends = memory_grow(answer->ends, answer->room * sizeof(*answer->ends));
}

static enum rc
add_row(struct rows_answer *answer, const char *text, size_t len)
{
    if (len == 0 || memchr(text, '\n', len) != NULL)
        return RC_BAD;
    if (answer->count == answer->most ||
        len + 1 > answer->rows.limit - answer->rows.len) /* both or nothing */
        return RC_LIMIT;
    if (buffer_add(&answer->rows, text, len) != RC_OK)
        return RC_LIMIT;
    grow_ends(answer);
    answer->ends[answer->count++] = answer->rows.len;
    answer->bytes += len + 1;
    *answer->held_bytes += len + 1;
    return buffer_add(&answer->rows, ",", 1);
}

enum rc
rows_answer_add(struct rows_answer *answer, const char *text, size_t len)
{
    enum rc rc;

    if (answer->has_header)
        return add_row(answer, text, len);
    rc = rows_header_parse(text, len, &answer->header);
    answer->has_header = rc == RC_OK;
    return rc;
}

static size_t
start_of(const struct rows_answer *answer, size_t row)
{
    return row > 0 ? answer->ends[row - 1] + 1 : 0;
}

/* The first row that does not fit, but at least one more than `first` if there is one. */
static size_t
end_of_page(const struct rows_answer *answer, size_t first, size_t room)
{
    size_t low = first < answer->count ? first + 1 : first;
    size_t high = answer->count;

    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;

        if (answer->ends[middle - 1] - start_of(answer, first) <= room)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static enum rc
write_head(const struct rows_answer *answer, struct buffer *out)
{
    return buffer_addf(out, "\"key\":%s,\"snapshot\":\"%s\",\"rows\":[", answer->header.key,
                       answer->header.snapshot_text);
}

static enum rc
write_rows(const struct rows_answer *answer, size_t first, size_t end, struct buffer *out)
{
    size_t start = start_of(answer, first);

    return end > first ? buffer_add(out, answer->rows.bytes + start, answer->ends[end - 1] - start)
                       : RC_OK;
}

enum rc
rows_answer_write_page(const struct rows_answer *answer, size_t first, int64_t request_id,
                       struct buffer *out, size_t *ret_next)
{
    size_t before = out->len;
    size_t used, next;
    enum rc rc = buffer_addf(out, "{\"t\":\"rows\",\"r\":%" PRId64 ",", request_id);

    if (rc == RC_OK)
        rc = write_head(answer, out);
    used = out->len - before + sizeof(PAGE_TAIL);
    next = end_of_page(answer, first, used < ROWS_PAGE_MAX ? ROWS_PAGE_MAX - used : 0);
    if (rc == RC_OK)
        rc = write_rows(answer, first, next, out);
    if (rc == RC_OK)
        rc = next < answer->count ? buffer_addf(out, "],\"more\":true}")
                                  : buffer_add(out, PAGE_TAIL, sizeof(PAGE_TAIL) - 1);
    if (rc == RC_OK)
        *ret_next = next;
    return rc;
}

enum rc
rows_answer_write(const struct rows_answer *answer, struct buffer *out)
{
    enum rc rc = buffer_add(out, "{", 1);

    if (rc == RC_OK)
        rc = write_head(answer, out);
    if (rc == RC_OK)
        rc = write_rows(answer, 0, answer->count, out);
    return rc == RC_OK ? buffer_add(out, "]}\n", 3) : rc;
}
