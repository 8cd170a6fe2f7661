/* replay.c: write the notifications of a streamed transaction at its commit. */
#include "changes/changes.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "decoder.h"
#include "output/output.h"
#include "plan/plan.h"

struct replay {
    LogicalDecodingContext *ctx;
    struct decoder *decoder;
    MemoryContext templates_context;
    struct plan **templates;
    uint32 template_count;
    uint32 template_room;
    MemoryContext warnings_context;
    List *warnings; /* bodies of warning records, by number */
    /* the committed subtransactions, sorted */
    TransactionId *committed;
    int committed_count;
};

static int
compare_xids(const void *a, const void *b)
{
    TransactionId left = *(const TransactionId *)a;
    TransactionId right = *(const TransactionId *)b;

    return left < right ? -1 : left > right;
}

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "replay.c uses ReorderBufferTXN.subtxns, which was checked for PostgreSQL 15 to 18"
#endif

/*
 * The server removes a subtransaction from the list when it decodes its rollback
 * (ReorderBufferAbort), so the remaining subtransactions are committed.
 */
static void
list_committed(struct replay *replay, ReorderBufferTXN *txn)
{
    int room = 16;
    dlist_iter iter;

    replay->committed = palloc(sizeof(TransactionId) * room);
    replay->committed[replay->committed_count++] = txn->xid;
    dlist_foreach(iter, &txn->subtxns)
    {
        if (replay->committed_count == room) {
            room *= 2;
            replay->committed =
                repalloc_huge(replay->committed, sizeof(TransactionId) * (Size)room);
        }
        replay->committed[replay->committed_count++] =
            dlist_container(ReorderBufferTXN, node, iter.cur)->xid;
    }
    qsort(replay->committed, replay->committed_count, sizeof(TransactionId), compare_xids);
}

static bool
is_committed(const struct replay *replay, TransactionId xid)
{
    return bsearch(&xid, replay->committed, replay->committed_count, sizeof(xid), compare_xids) !=
           NULL;
}

/* A number 0 starts a new generation: the previous templates are no longer used. */
static void
load_template(struct replay *replay, const struct spool_record *record, const char *body)
{
    MemoryContext old;

    if (record->number == 0) {
        MemoryContextReset(replay->templates_context);
        replay->template_count = 0;
        replay->template_room = 0;
    }
    old = MemoryContextSwitchTo(replay->templates_context);
    if (replay->template_room == 0) {
        replay->template_room = 16;
        replay->templates = palloc(sizeof(struct plan *) * replay->template_room);
    } else if (replay->template_count == replay->template_room) {
        replay->template_room *= 2;
        replay->templates =
            repalloc(replay->templates, sizeof(struct plan *) * replay->template_room);
    }
    Assert(record->number == replay->template_count);
    replay->templates[replay->template_count++] = spool_get_template(body);
    MemoryContextSwitchTo(old);
}

static struct fragment
read_spool_text(const char **at)
{
    uint16 length;
    struct fragment text;

    memcpy(&length, *at, sizeof(length));
    text = (struct fragment){*at + sizeof(length), length};
    *at = text.bytes + length;
    return text;
}

static void
read_spool_targets(struct target_list *list, int count, const char **at)
{
    list->count = count;
    target_list_reserve(list, count);
    for (int i = 0; i < count; i++) {
        struct fragment text = read_spool_text(at);

        list->lengths[i] = text.len;
        list->texts[i] = (char *)text.bytes;
    }
}

static void
replay_notification(struct replay *replay, const struct spool_record *record, const char *body)
{
    const struct plan *plan = replay->templates[record->number];
    const char *end = body + record->size - sizeof(*record);
    struct target_list targets = {0};
    struct notification notification = {.plan = plan,
                                        .operation = record->operation,
                                        .part = record->part,
                                        .targets = &targets,
                                        .undecodable = (record->flags & SPOOL_UNDECODABLE) != 0};

    if (record->flags & SPOOL_EMITTER)
        notification.emitter = read_spool_text(&body);
    if (record->flags & SPOOL_WEB_PUSH)
        notification.web_push = read_spool_text(&body);
    if (record->flags & SPOOL_LITERAL)
        notification.targets = &plan->rule->literal;
    else
        read_spool_targets(&targets, record->target_count, &body);
    notification.payload = (struct fragment){body, end - body};
    notification_write(replay->ctx, &notification);
}

static void
split_texts(const char *at, char **ret_texts, int count)
{
    for (int i = 0; i < count; i++) {
        ret_texts[i] = (char *)at;
        at += strlen(at) + 1;
    }
}

static void
replay_member(struct replay *replay, const struct spool_record *record, const char *body)
{
    char *texts[MEMBER_FIELDS];

    split_texts(body, texts, MEMBER_FIELDS);
    member_write(replay->ctx, record->operation, texts);
}

static void
replay_reload(struct replay *replay, const struct spool_record *record, const char *body)
{
    char *texts[2];
    struct fragment source, rule;

    split_texts(body, texts, 2);
    source = (struct fragment){texts[0], strlen(texts[0])};
    rule = (struct fragment){texts[1], strlen(texts[1])};
    reload_write(replay->ctx, record->number, &source, &rule);
}

/* A number 0 starts a new generation, as with templates. */
static void
load_warning(struct replay *replay, const struct spool_record *record, const char *body)
{
    Size size = record->size - sizeof(*record);
    MemoryContext old;

    if (record->number == 0) {
        MemoryContextReset(replay->warnings_context);
        replay->warnings = NIL;
    }
    old = MemoryContextSwitchTo(replay->warnings_context);
    Assert(record->number == list_length(replay->warnings));
    replay->warnings = lappend(replay->warnings, memcpy(palloc(size), body, size));
    MemoryContextSwitchTo(old);
}

static void
replay_counts(struct replay *replay, const struct spool_record *record, const char *body)
{
    for (uint32 i = 0; i < record->number; i++) {
        struct spool_count run;

        memcpy(&run, body + i * sizeof(run), sizeof(run));
        for (uint32 at = 0; at < run.length; at++)
            warning_replay(replay->decoder, list_nth(replay->warnings, run.first + at),
                           run.changes);
    }
}

static void
replay_record(struct replay *replay, const struct spool_record *record, const char *body)
{
    switch ((enum spool_kind)record->kind) {
    case SPOOL_NOTIFICATION:
        replay_notification(replay, record, body);
        break;
    case SPOOL_MEMBER:
        replay_member(replay, record, body);
        break;
    case SPOOL_RELOAD:
        replay_reload(replay, record, body);
        break;
    case SPOOL_MESSAGE:
        notify_replay(replay->ctx, body, record->number, record->size - sizeof(*record));
        break;
    case SPOOL_ANNOTATION:
        annotation_replay(replay->decoder, body, record->size - sizeof(*record));
        break;
    case SPOOL_REPEAT:
        replay->decoder->repeats++;
        break;
    case SPOOL_COUNTS:
        replay_counts(replay, record, body);
        break;
    case SPOOL_XACT:
    case SPOOL_TEMPLATE:
    case SPOOL_WARNING:
        break;
    }
}

/* Loads templates and warnings of rolled back changes too, since later records may use them. */
static void
replay_all(struct replay *replay, struct spool_reader *reader)
{
    struct decoder *decoder = replay->decoder;
    bool is_applied = true; /* records of the top transaction are first */
    struct spool_record record;
    const char *body;

    while (spool_read(reader, &record, &body)) {
        MemoryContext old;

        CHECK_FOR_INTERRUPTS();
        if (is_applied)
            decoder->change_number += record.advance;
        if (record.kind == SPOOL_TEMPLATE)
            load_template(replay, &record, body);
        if (record.kind == SPOOL_WARNING)
            load_warning(replay, &record, body);
        if (record.kind == SPOOL_XACT)
            is_applied = is_committed(replay, record.number);
        if (!is_applied)
            continue;
        /*
         * Writes use the location of the original change. The location of the commit would mark the
         * end of the transaction.
         */
        replay->ctx->write_location = record.lsn;
        old = MemoryContextSwitchTo(decoder->change_context);
        replay_record(replay, &record, body);
        MemoryContextSwitchTo(old);
        MemoryContextReset(decoder->change_context);
    }
}

void
replay_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
    struct decoder *decoder = ctx->output_plugin_private;
    MemoryContext context =
        AllocSetContextCreate(decoder->context, "clairon replay", ALLOCSET_DEFAULT_SIZES);
    MemoryContext old = MemoryContextSwitchTo(context);
    struct replay replay = {.ctx = ctx, .decoder = decoder};
    struct spool_reader *reader = spool_read_begin(txn);
    XLogRecPtr location = ctx->write_location;

    if (reader != NULL) {
        replay.templates_context =
            AllocSetContextCreate(context, "clairon templates", ALLOCSET_DEFAULT_SIZES);
        replay.warnings_context =
            AllocSetContextCreate(context, "clairon spooled warnings", ALLOCSET_DEFAULT_SIZES);
        list_committed(&replay, txn);
        replay_all(&replay, reader);
    }
    ctx->write_location = location;
    MemoryContextSwitchTo(old);
    MemoryContextDelete(context);
}
