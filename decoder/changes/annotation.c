/*
 * annotation.c: clairon.annotate, from the SQL function to the metadata of later notifications.
 *
 * An annotation is a signed message (logical_message.c) of the subtransaction that calls the
 * function. It applies to the notifications of rows that follow it in the transaction, up to the
 * next one. The messages of rolled back subtransactions are not decoded, or their spool records are
 * skipped. So the last message that remains is that of the innermost call that is still in effect.
 *
 *   17  8  tag            so that a message of clairon.notify is no annotation
 *   25  2  emitter_len    0: the emitter of the rule
 *   27  2  trace_len      TRACEPARENT_LEN, or 0
 *   29  2  data_len       0: none
 *   31     emitter, traceparent, data
 */
#include "changes/changes.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

#include "base/account.h"
#include "decoder.h"
#include "encode/encode.h"
#include "encode/json.h"
#include "output/output.h"
#include "protocol/traceparent.h"

#define ANNOTATION_TAG "annotate"
#define ANNOTATION_TAG_LEN 8
#define ANNOTATION_HEAD_SIZE 31

#define EMITTER_BYTES_MAX 255
#define DATA_BYTES_MAX 4096

PG_FUNCTION_INFO_V1(clairon_annotate);

/* Arguments of clairon_annotate, each of which may be NULL. */
#define ANNOTATE_EMITTER 0
#define ANNOTATE_TRACEPARENT 1
#define ANNOTATE_DATA 2

/* The members of an annotation, in UTF-8. Empty: absent. */
struct annotation_texts {
    struct fragment emitter;
    struct fragment traceparent;
    struct fragment data; /* minified JSON */
};

/* As with clairon.watch, only members of clairon_app name another emitter. */
static void
check_emitter_privilege(void)
{
    if (account_is_app_member(GetUserId()))
        return;
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                    errmsg("must be a member of clairon_app to set emitter"),
                    errdetail("Other roles can set traceparent and data, with a null emitter."),
                    errhint("To allow it, run GRANT clairon_app TO %s.",
                            quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

static struct fragment
read_emitter(FunctionCallInfo fcinfo)
{
    text *given = PG_GETARG_TEXT_PP(ANNOTATE_EMITTER);
    struct fragment emitter;

    check_emitter_privilege();
    emitter.bytes = encode_to_utf8(VARDATA_ANY(given), VARSIZE_ANY_EXHDR(given), &emitter.len);
    if (emitter.len == 0 || emitter.len > EMITTER_BYTES_MAX)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("invalid length of parameter \"emitter\": %d bytes", emitter.len),
                        errhint("The value must have 1 to %d bytes in UTF-8.", EMITTER_BYTES_MAX)));
    return emitter;
}

static struct fragment
read_traceparent(FunctionCallInfo fcinfo)
{
    const char *given = text_to_cstring(PG_GETARG_TEXT_PP(ANNOTATE_TRACEPARENT));
    char *parsed = palloc(TRACEPARENT_LEN + 1);

    if (!traceparent_read(given, strlen(given), parsed))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("invalid value for parameter \"traceparent\": \"%.100s\"", given),
                        errhint("The format is " TRACEPARENT_VALID ".")));
    return (struct fragment){parsed, TRACEPARENT_LEN};
}

/*
 * The relay and the store's scripts search for these literals, which other user text cannot
 * contain, since it is in strings. Returns the length of the literal at the start of the text.
 */
static int
literal_length(const char *text, int len)
{
    static const char *const literals[] = {ENVELOPE_TRACEPARENT_TEXT, ENVELOPE_EXPIRATION_TEXT,
                                           ",\"payload\":"};

    for (int i = 0; i < lengthof(literals); i++) {
        int literal_len = strlen(literals[i]);

        if (len >= literal_len && memcmp(text, literals[i], literal_len) == 0)
            return literal_len;
    }
    return 0;
}

/* Escapes the first letter of member names that would be mistaken for members of `metadata`. */
static struct fragment
escape_members(const char *json, int len)
{
    StringInfoData out;

    initStringInfo(&out);
    for (int i = 0; i < len; i++) {
        int literal = json[i] == ',' ? literal_length(json + i, len - i) : 0;

        if (literal == 0) {
            appendStringInfoCharMacro(&out, json[i]);
            continue;
        }
        appendStringInfo(&out, ",\"\\u%04x", json[i + 2]);
        appendBinaryStringInfo(&out, json + i + 3, literal - 3);
        i += literal - 1;
    }
    return (struct fragment){out.data, out.len};
}

static struct fragment
read_data(FunctionCallInfo fcinfo)
{
    const struct encode_settings settings = {.limit = DATA_BYTES_MAX};
    struct encoder encoder = {.settings = &settings};
    Datum given = PG_GETARG_DATUM(ANNOTATE_DATA);
    StringInfoData json;

    if (!JB_ROOT_IS_OBJECT(DatumGetJsonbP(given)))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("invalid value for parameter \"data\": a JSON %s",
                               TextDatumGetCString(DirectFunctionCall1(jsonb_typeof, given))),
                        errhint("The value must be a JSON object.")));
    initStringInfo(&json);
    encode_jsonb(&encoder, &json, given);
    if (json.len > DATA_BYTES_MAX)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("parameter \"data\" is larger than 4 kB"),
                        errhint("The value must have at most %d bytes as JSON without white space.",
                                DATA_BYTES_MAX)));
    return escape_members(json.data, json.len);
}

static void
append_texts(StringInfo out, const struct annotation_texts *texts)
{
    appendBinaryStringInfo(out, ANNOTATION_TAG, ANNOTATION_TAG_LEN);
    pq_sendint16(out, texts->emitter.len);
    pq_sendint16(out, texts->traceparent.len);
    pq_sendint16(out, texts->data.len);
    appendBinaryStringInfo(out, texts->emitter.bytes, texts->emitter.len);
    appendBinaryStringInfo(out, texts->traceparent.bytes, texts->traceparent.len);
    appendBinaryStringInfo(out, texts->data.bytes, texts->data.len);
}

/* annotate(emitter text, traceparent text, data jsonb): see sql/notify.sql. */
Datum
clairon_annotate(PG_FUNCTION_ARGS)
{
    struct annotation_texts texts = {{"", 0}, {"", 0}, {"", 0}};
    StringInfoData bytes;

    PreventCommandDuringRecovery("clairon.annotate()");
    if (!PG_ARGISNULL(ANNOTATE_EMITTER))
        texts.emitter = read_emitter(fcinfo);
    if (!PG_ARGISNULL(ANNOTATE_TRACEPARENT))
        texts.traceparent = read_traceparent(fcinfo);
    if (!PG_ARGISNULL(ANNOTATE_DATA))
        texts.data = read_data(fcinfo);
    message_begin(&bytes);
    append_texts(&bytes, &texts);
    message_write(MESSAGE_ANNOTATION_PREFIX, &bytes);
    PG_RETURN_VOID();
}

static struct fragment
next_text(StringInfo in, int len)
{
    return (struct fragment){pq_getmsgbytes(in, len), len};
}

static struct annotation_texts
annotation_read(const char *bytes, Size size)
{
    struct annotation_texts texts;
    StringInfoData in = {.data = (char *)bytes,
                         .len = size,
                         .maxlen = size,
                         .cursor = MESSAGE_SIGNED_AT + ANNOTATION_TAG_LEN};
    int emitter_len = pq_getmsgint(&in, 2);
    int trace_len = pq_getmsgint(&in, 2);
    int data_len = pq_getmsgint(&in, 2);

    texts.emitter = next_text(&in, emitter_len);
    texts.traceparent = next_text(&in, trace_len);
    texts.data = next_text(&in, data_len);
    return texts;
}

/* Renders the members for the notifications of this transaction. */
static void
annotation_set(struct decoder *decoder, const struct annotation_texts *texts)
{
    const struct encode_settings *settings = &decoder->settings;
    struct annotation *annotation;
    StringInfoData out;
    MemoryContext old;
    int data_at;

    if (decoder->annotation_context == NULL)
        decoder->annotation_context =
            AllocSetContextCreate(decoder->context, "clairon annotation", ALLOCSET_SMALL_SIZES);
    decoder->annotation = NULL;
    MemoryContextReset(decoder->annotation_context);
    if (texts->emitter.len + texts->traceparent.len + texts->data.len == 0)
        return;
    old = MemoryContextSwitchTo(decoder->annotation_context);
    annotation = palloc(sizeof(*annotation));
    *annotation = (struct annotation){{"", 0}, {"", 0}, {"", 0}};
    if (texts->emitter.len > 0) {
        initStringInfo(&out);
        encode_utf8_text(settings, &out, texts->emitter.bytes, texts->emitter.len);
        annotation->emitter = (struct fragment){out.data, out.len};
    }
    if (texts->traceparent.len > 0) {
        initStringInfo(&out);
        encode_literal(&out, ENVELOPE_TRACEPARENT_TEXT);
        encode_utf8_text(settings, &out, texts->traceparent.bytes, texts->traceparent.len);
        annotation->traceparent = (struct fragment){out.data, out.len};
    }
    if (texts->data.len > 0) {
        initStringInfo(&out);
        encode_literal(&out, ENVELOPE_DATA_TEXT);
        data_at = out.len;
        (void)encode_reserve(&out, JSON_ESCAPE_GROWTH * texts->data.len);
        out.len =
            json_compact(out.data + data_at, texts->data.bytes, texts->data.len, settings->ascii) -
            out.data;
        annotation->data = (struct fragment){out.data, out.len};
    }
    decoder->annotation = annotation;
    MemoryContextSwitchTo(old);
}

static void
spool_bytes(struct decoder *decoder, const char *bytes, Size size)
{
    struct spool_record record;
    StringInfo out = spool_open(decoder, SPOOL_ANNOTATION, 0, &record);

    encode_raw(out, bytes, size);
    spool_close(decoder, &record);
    spool_annotate(decoder, size - ANNOTATION_HEAD_SIZE);
}

void
annotation_decode(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, const char *content,
                  Size size)
{
    struct decoder *decoder = ctx->output_plugin_private;
    const char *bytes =
        message_verify(decoder, txn->xid, content, size, ANNOTATION_HEAD_SIZE, &size);

    if (bytes == NULL || memcmp(bytes + MESSAGE_SIGNED_AT, ANNOTATION_TAG, ANNOTATION_TAG_LEN) != 0)
        warning_count(decoder, 0, "annotate",
                      "ignored: the message was not created by clairon.annotate()");
    else if (decoder->spool != NULL)
        spool_bytes(decoder, bytes, size);
    else
        annotation_replay(decoder, bytes, size);
}

void
annotation_replay(struct decoder *decoder, const char *bytes, Size size)
{
    struct annotation_texts texts = annotation_read(bytes, size);

    annotation_set(decoder, &texts);
}
