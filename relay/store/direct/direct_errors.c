/* direct_errors.c: reads the error logs of all shards in one order, for CLI commands. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/direct/direct_private.h"
#include "store/scripts/scripts.h"

/*
 * The page is small, because a dead letter may have a megabyte and a page of each shard is in
 * memory.
 */
#define PAGE_OF_ALL 50
#define PAGE_MIN 8
#define PAGE_LARGE_BYTES (1024u * 1024)

/* A page of one shard's log. */
struct log_page {
    struct redisReply *rows;  /* NULL: end of the log */
    size_t at;                /* index of the current row */
    unsigned count;           /* number of rows to request */
    struct error_entry entry; /* the current row */
    char to[ENTRY_ID_TEXT_MAX];
};

struct log_merge {
    struct direct *direct;
    unsigned max; /* number of rows in a page */
    struct log_page pages[STORE_SHARDS_MAX];
};

long long
direct_error_count(struct direct *direct)
{
    long long count = 0;

    for (unsigned k = 0; k < direct->shard_count; k++) {
        const char *argv[] = {"XLEN", direct->shards[k].errors};
        const struct redisReply *reply;

        if (direct->is_missing[k])
            continue;
        reply = direct_request(direct, k, 2, argv);
        if (!reply_is_integer(reply))
            return -1;
        count += reply_integer(reply);
    }
    return count;
}

enum rc
direct_complete(struct direct *direct, unsigned shard, struct error_entry *entry)
{
    const struct direct_shard *keys = &direct->shards[shard];
    char entry_text[ENTRY_ID_TEXT_MAX];
    const char *argv[] = {
        "EVAL", store_script_error_entry, "2", keys->stream, keys->none, keys->prefix, entry_text,
        "read"};
    const struct redisReply *reply;
    struct error_entry completed;

    if (entry->data.len > 0 || bytes_equal_text(entry->reason, "rejected"))
        return RC_OK;
    entry_id_text(entry->entry, entry_text);
    reply = direct_request(direct, shard, 8, argv);
    if (!reply_is_array(reply, 0))
        return RC_IO;
    node_free_reply(direct->completed);
    direct->completed = node_keep_reply(direct_connection(direct, shard)->node);
    if (reply_count(direct->completed) > 0 &&
        error_entry_read(reply_at(direct->completed, 0), &completed) == RC_OK)
        *entry = completed;
    return RC_OK;
}

/* A redriven notification may return to the log, so the initially newest entry is the end. */
static enum rc
find_newest(struct log_merge *merge, unsigned shard)
{
    const char *argv[] = {"XREVRANGE", merge->direct->shards[shard].errors, "+", "-", "COUNT", "1"};
    const struct redisReply *reply = direct_request(merge->direct, shard, 6, argv);
    struct error_entry newest = {.entry = {0, 0}};

    if (!reply_is_array(reply, 0))
        return RC_IO;
    if (reply_count(reply) > 0 && error_entry_read(reply_at(reply, 0), &newest) != RC_OK)
        return RC_IO;
    entry_id_text(newest.entry, merge->pages[shard].to);
    return RC_OK;
}

/* Large entries are read one by one, small ones in growing pages: sizes are unknown before. */
static unsigned
next_count(struct log_page *page, unsigned max)
{
    size_t bytes = 0;

    for (size_t i = 0; i < reply_count(page->rows); i++) {
        struct error_entry entry;

        if (error_entry_read(reply_at(page->rows, i), &entry) == RC_OK)
            bytes += entry.data.len + entry.users.len;
    }
    page->count = bytes > PAGE_LARGE_BYTES ? 1 : 2 * page->count;
    if (page->count == 0 || page->count > max)
        page->count = page->count == 0 ? 1 : max;
    return page->count;
}

/* Requests during a visit would free the reply, so the page takes ownership of it. */
static enum rc
read_page(struct log_merge *merge, unsigned shard, const char *from)
{
    struct log_page *page = &merge->pages[shard];
    char count[16];
    const char *argv[] = {"XRANGE", merge->direct->shards[shard].errors, from, page->to, "COUNT",
                          count};
    const struct redisReply *reply;

    snprintf(count, sizeof(count), "%u", next_count(page, merge->max));
    reply = direct_request(merge->direct, shard, 6, argv);
    node_free_reply(page->rows);
    page->rows = NULL;
    page->at = 0;
    if (!reply_is_array(reply, 0))
        return RC_IO;
    if (reply_count(reply) == 0)
        return RC_OK;
    page->rows = node_keep_reply(direct_connection(merge->direct, shard)->node);
    return error_entry_read(reply_at(page->rows, 0), &page->entry);
}

static enum rc
advance(struct log_merge *merge, unsigned shard)
{
    struct log_page *page = &merge->pages[shard];
    char from[ENTRY_ID_TEXT_MAX + 1] = "("; /* excludes the last entry */

    if (++page->at < reply_count(page->rows))
        return error_entry_read(reply_at(page->rows, page->at), &page->entry);
    entry_id_text(page->entry.entry, from + 1);
    return read_page(merge, shard, from);
}

/* Returns the shard of the oldest dead letter, or the number of shards if none is left. */
static unsigned
find_oldest(const struct log_merge *merge)
{
    const unsigned count = merge->direct->shard_count;
    unsigned oldest = count;

    for (unsigned k = 0; k < count; k++)
        if (merge->pages[k].rows != NULL &&
            (oldest == count ||
             entry_id_less(merge->pages[k].entry.entry, merge->pages[oldest].entry.entry)))
            oldest = k;
    return oldest;
}

static enum rc
walk(struct log_merge *merge, struct entry_id since, direct_visit *visit, void *ctx)
{
    const unsigned count = merge->direct->shard_count;
    char from[ENTRY_ID_TEXT_MAX];
    enum rc rc = direct_reach(merge->direct, true);

    entry_id_text(since, from);
    for (unsigned k = 0; k < count && rc == RC_OK; k++) {
        if (!merge->direct->is_missing[k])
            rc = find_newest(merge, k) == RC_OK ? read_page(merge, k, from) : RC_IO;
    }
    for (unsigned k = find_oldest(merge); k < count && rc == RC_OK; k = find_oldest(merge)) {
        if (!visit(ctx, k, &merge->pages[k].entry))
            break;
        rc = advance(merge, k);
    }
    return rc == RC_OK ? direct_read_changes(merge->direct) : RC_IO;
}

enum rc
direct_errors(struct direct *direct, struct entry_id since, direct_visit *visit, void *ctx)
{
    struct log_merge *merge = memory_new(sizeof(*merge));
    const unsigned share = PAGE_OF_ALL / direct->shard_count;
    enum rc rc;

    merge->direct = direct;
    merge->max = share > PAGE_MIN ? share : PAGE_MIN;
    rc = walk(merge, since, visit, ctx);
    for (unsigned k = 0; k < direct->shard_count; k++)
        node_free_reply(merge->pages[k].rows);
    free(merge);
    return rc;
}
