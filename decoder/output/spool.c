/* spool.c: write and read the spool files of streamed transactions. */
#include "output/output.h"

#include "lib/ilist.h"
#include "storage/fd.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "decoder.h"
#include "encode/encode.h"

/* The buffer size for reading and writing the file. */
#define SPOOL_BYTES (128 * 1024)

/* A buffer larger than this is freed after use. */
#define SPOOL_KEEP_BYTES (1024 * 1024)

/*
 * The maximum size of all valid templates, approximately. Beyond this size a new generation starts.
 */
#define TEMPLATE_BYTES (4 * 1024 * 1024)

/* The bytes of an annotation, which are charged when a notification is spooled. */
struct spool_annotation {
    TransactionId xid; /* subtransaction that called clairon.annotate */
    int bytes;
};

/* The spool of one transaction. */
struct spool {
    dlist_node node;
    File file;
    bool open;
    off_t size;
    TransactionId xid; /* subtransaction of the last change; initially the top transaction */
    uint64 uncounted;  /* changes of `xid` since the last record */
    /* The last one is in effect. Sorted by xid, so that a rollback removes the end. */
    struct spool_annotation *annotations;
    int annotation_count;
    int annotation_room;
};

/* One spooler per decoder is enough, because stream blocks do not overlap. */
struct spooler {
    dlist_head spools;
    LogicalDecodingContext *ctx;
    MemoryContextCallback close_files;
    MemoryContext context;
    StringInfoData buffer;
    int closed; /* end of the complete records in the buffer */
    /* A template is valid when its mark has this generation. */
    uint64 generation;
    uint32 template_count;
    Size template_bytes;
};

struct spool_reader {
    const struct spool *spool;
    off_t at;
    StringInfoData buffer;
    int used;
};

static void
close_files(void *arg)
{
    struct spooler *spooler = arg;
    dlist_iter iter;

    dlist_foreach(iter, &spooler->spools)
    {
        struct spool *spool = dlist_container(struct spool, node, iter.cur);

        if (spool->open)
            FileClose(spool->file);
    }
}

void
spool_setup(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;
    struct spooler *spooler = MemoryContextAllocZero(decoder->context, sizeof(*spooler));

    dlist_init(&spooler->spools);
    spooler->ctx = ctx;
    spooler->context = decoder->context;
    spooler->close_files.func = close_files;
    spooler->close_files.arg = spooler;
    MemoryContextRegisterResetCallback(decoder->context, &spooler->close_files);
    decoder->spooler = spooler;
}

static void
new_buffer(struct spooler *spooler)
{
    MemoryContext old = MemoryContextSwitchTo(spooler->context);

    if (spooler->buffer.data != NULL)
        pfree(spooler->buffer.data);
    initStringInfo(&spooler->buffer);
    enlargeStringInfo(&spooler->buffer, SPOOL_BYTES + SPOOL_BYTES / 2);
    MemoryContextSwitchTo(old);
}

/* Plans may be rebuilt between two blocks: all templates become invalid. */
static void
new_generation(struct spooler *spooler)
{
    spooler->generation++;
    spooler->template_count = 0;
    spooler->template_bytes = 0;
}

void
spool_begin_block(struct decoder *decoder, ReorderBufferTXN *txn)
{
    struct spooler *spooler = decoder->spooler;
    struct spool *spool = txn->output_plugin_private;

    if (spool == NULL) {
        spool = MemoryContextAllocZero(spooler->context, sizeof(*spool));
        spool->xid = txn->xid;
        dlist_push_head(&spooler->spools, &spool->node);
        txn->output_plugin_private = spool;
    }
    if (spooler->buffer.data == NULL)
        new_buffer(spooler);
    spooler->buffer.len = 0;
    spooler->closed = 0;
    new_generation(spooler);
    decoder->spool = spool;
    decoder->annotation = NULL;
    decoder->transaction_number++;
    decoder->change_number = spool->uncounted;
}

static void
write_out(struct spooler *spooler, struct spool *spool)
{
    int done = 0;

    if (spooler->closed > 0 && !spool->open) {
        spool->file = OpenTemporaryFile(true);
        spool->open = true;
    }
    while (done < spooler->closed) {
        int count = FileWrite(spool->file, spooler->buffer.data + done, spooler->closed - done,
                              spool->size, WAIT_EVENT_BUFFILE_WRITE);

        /* The slot does not advance: the next reader decodes the whole transaction again. */
        if (count <= 0)
            ereport(
                ERROR,
                (errcode_for_file_access(),
                 errmsg("could not write to the temporary file of a streamed transaction: %m")));
        done += count;
        spool->size += count;
    }
    spooler->buffer.len = 0;
    spooler->closed = 0;
    if (spooler->buffer.maxlen > SPOOL_KEEP_BYTES)
        new_buffer(spooler);
}

void
spool_end_block(struct decoder *decoder)
{
    struct spool *spool = decoder->spool;

    decoder->spool = NULL;
    spool->uncounted = decoder->change_number;
    write_out(decoder->spooler, spool);
}

StringInfo
spool_open(struct decoder *decoder, enum spool_kind kind, uint32 number,
           struct spool_record *ret_record)
{
    StringInfo out = &decoder->spooler->buffer;

    /* Drops the incomplete record of a change that raised an error. */
    out->len = decoder->spooler->closed;
    *ret_record = (struct spool_record){.kind = kind,
                                        .number = number,
                                        .advance = decoder->change_number,
                                        .lsn = decoder->spooler->ctx->write_location};
    (void)encode_reserve(out, sizeof(*ret_record));
    out->len += sizeof(*ret_record);
    return out;
}

void
spool_close(struct decoder *decoder, struct spool_record *record)
{
    struct spooler *spooler = decoder->spooler;

    record->size = spooler->buffer.len - spooler->closed;
    memcpy(spooler->buffer.data + spooler->closed, record, sizeof(*record));
    spooler->closed = spooler->buffer.len;
    decoder->change_number = 0;
    if (spooler->closed >= SPOOL_BYTES)
        write_out(spooler, decoder->spool);
}

bool
spool_is_in_xact(struct decoder *decoder, TransactionId xid)
{
    return decoder->spool->xid == xid;
}

void
spool_switch_xact(struct decoder *decoder, TransactionId xid)
{
    struct spool_record record;

    (void)spool_open(decoder, SPOOL_XACT, xid, &record);
    spool_close(decoder, &record);
    decoder->spool->xid = xid;
}

/*
 * Removes the annotations of a subtransaction and its children. These have later ids, since a
 * subtransaction receives its id before its children do; and all later ids are of children, since
 * the subtransaction is still open.
 */
static void
remove_annotations(struct spool *spool, TransactionId xid)
{
    while (spool->annotation_count > 0 &&
           TransactionIdFollowsOrEquals(spool->annotations[spool->annotation_count - 1].xid, xid))
        spool->annotation_count--;
}

void
spool_annotate(struct decoder *decoder, int bytes)
{
    struct spool *spool = decoder->spool;

    /* Children were released, so they are rolled back with this subtransaction only. */
    remove_annotations(spool, spool->xid);
    if (spool->annotations == NULL) {
        spool->annotation_room = 4;
        spool->annotations = MemoryContextAlloc(
            decoder->spooler->context, sizeof(*spool->annotations) * (Size)spool->annotation_room);
    } else if (spool->annotation_count == spool->annotation_room) {
        spool->annotation_room *= 2;
        spool->annotations = repalloc_huge(spool->annotations, sizeof(*spool->annotations) *
                                                                   (Size)spool->annotation_room);
    }
    spool->annotations[spool->annotation_count++] = (struct spool_annotation){spool->xid, bytes};
}

int
spool_annotation_bytes(const struct decoder *decoder)
{
    const struct spool *spool = decoder->spool;

    return spool->annotation_count == 0 ? 0 : spool->annotations[spool->annotation_count - 1].bytes;
}

void
spool_abort_xact(ReorderBufferTXN *top, TransactionId xid)
{
    if (top->output_plugin_private != NULL)
        remove_annotations(top->output_plugin_private, xid);
}

bool
spool_has_template(struct decoder *decoder, const struct template_mark *mark)
{
    return mark->generation == decoder->spooler->generation;
}

StringInfo
spool_open_template(struct decoder *decoder, struct spool_record *ret_record)
{
    struct spooler *spooler = decoder->spooler;

    if (spooler->template_bytes > TEMPLATE_BYTES)
        new_generation(spooler);
    return spool_open(decoder, SPOOL_TEMPLATE, spooler->template_count, ret_record);
}

void
spool_close_template(struct decoder *decoder, struct spool_record *record,
                     struct template_mark *ret_mark)
{
    struct spooler *spooler = decoder->spooler;

    spool_close(decoder, record);
    spooler->template_bytes += record->size;
    ret_mark->generation = spooler->generation;
    ret_mark->number = spooler->template_count++;
}

void
spool_drop(struct decoder *decoder, ReorderBufferTXN *txn)
{
    struct spool *spool = txn->output_plugin_private;

    if (spool == NULL)
        return;
    txn->output_plugin_private = NULL;
    dlist_delete(&spool->node);
    if (spool->open)
        FileClose(spool->file);
    if (spool->annotations != NULL)
        pfree(spool->annotations);
    pfree(spool);
}

struct spool_reader *
spool_read_begin(ReorderBufferTXN *txn)
{
    const struct spool *spool = txn->output_plugin_private;
    struct spool_reader *reader;

    if (spool == NULL || !spool->open)
        return NULL;
    reader = palloc0(sizeof(*reader));
    reader->spool = spool;
    initStringInfo(&reader->buffer);
    enlargeStringInfo(&reader->buffer, SPOOL_BYTES);
    return reader;
}

/* Fills the buffer with at least `need` bytes. Returns false at the end of the file. */
static bool
fill_buffer(struct spool_reader *reader, int need)
{
    StringInfo buffer = &reader->buffer;
    int left = buffer->len - reader->used;

    if (left >= need)
        return true;
    memmove(buffer->data, buffer->data + reader->used, left);
    buffer->len = left;
    reader->used = 0;
    (void)encode_reserve(buffer, Max(need, SPOOL_BYTES) - left);
    while (buffer->len < need && reader->at < reader->spool->size) {
        int count = FileRead(reader->spool->file, buffer->data + buffer->len,
                             buffer->maxlen - buffer->len - 1, reader->at, WAIT_EVENT_BUFFILE_READ);

        if (count <= 0)
            ereport(ERROR,
                    (errcode_for_file_access(),
                     errmsg("could not read the temporary file of a streamed transaction: %m")));
        buffer->len += count;
        reader->at += count;
    }
    if (buffer->len < need && buffer->len > 0)
        elog(ERROR, "unexpected end of the temporary file of a streamed transaction");
    return buffer->len >= need;
}

bool
spool_read(struct spool_reader *reader, struct spool_record *ret_record, const char **ret_body)
{
    struct spool_record record;

    if (!fill_buffer(reader, sizeof(record)))
        return false;
    memcpy(&record, reader->buffer.data + reader->used, sizeof(record));
    (void)fill_buffer(reader, record.size);
    *ret_record = record;
    *ret_body = reader->buffer.data + reader->used + sizeof(record);
    reader->used += record.size;
    return true;
}
