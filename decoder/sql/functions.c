/* functions.c: the C functions behind the extension's SQL. */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "replication/message.h"
#include "replication/slot.h"
#include "storage/fd.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/account.h"
#include "base/notify_message.h"
#include "encode/encode.h"
#include "protocol/limits.h"
#include "protocol/version.h"
#include "rules/rules.h"

#define PAYLOAD_BYTES_MAX (1024 * 1024)
#define TEXT_BYTES_MAX 1024
#define REPORT_LINE_MAX 100

/* Arguments of clairon_emit that may be NULL. */
#define EMIT_TOPIC 7
#define EMIT_TTL 9
#define EMIT_ACK_TIMEOUT 13

PG_FUNCTION_INFO_V1(clairon_version);
PG_FUNCTION_INFO_V1(clairon_rule_written);
PG_FUNCTION_INFO_V1(clairon_lock_rules);
PG_FUNCTION_INFO_V1(clairon_uuid_v7);
PG_FUNCTION_INFO_V1(clairon_utf8);
PG_FUNCTION_INFO_V1(clairon_utf8_length);
PG_FUNCTION_INFO_V1(clairon_split_parts);
PG_FUNCTION_INFO_V1(clairon_emit);
PG_FUNCTION_INFO_V1(clairon_denial_report);
PG_FUNCTION_INFO_V1(clairon_report_denials);

/* Returns the version of the loaded library, to compare with the version of the extension. */
Datum
clairon_version(PG_FUNCTION_ARGS)
{
    PG_RETURN_TEXT_P(cstring_to_text(CLAIRON_VERSION));
}

static void
put_file(StringInfo out, const char *path)
{
    char text[ACCOUNT_REPORT_BYTES_MAX];
    FILE *file = AllocateFile(path, "r");

    if (file == NULL)
        return;
    appendBinaryStringInfo(out, text, fread(text, 1, sizeof(text), file));
    FreeFile(file);
}

/*
 * denial_report(slot name) -> text: the reports of the slot, or NULL if nothing was denied.
 */
Datum
clairon_denial_report(PG_FUNCTION_ARGS)
{
    const char *slot = NameStr(*PG_GETARG_NAME(0));
    char path[MAXPGPATH];
    StringInfoData text;

    if (strchr(slot, '/') != NULL)
        PG_RETURN_NULL();
    initStringInfo(&text);
    snprintf(path, sizeof(path), ACCOUNT_REPORT_PATH, slot);
    put_file(&text, path);
    for (int i = 0; i < ACCOUNT_STORE_KINDS; i++) {
        snprintf(path, sizeof(path), ACCOUNT_STORE_REPORT_PATH, slot, account_store_kinds[i]);
        put_file(&text, path);
    }
    if (text.len == 0)
        PG_RETURN_NULL();
    PG_RETURN_TEXT_P(cstring_to_text_with_len(text.data, text.len));
}

/* Returns an account of the store by its name. */
static const char *
store_kind_of(const char *name)
{
    for (int i = 0; i < ACCOUNT_STORE_KINDS; i++)
        if (strcmp(account_store_kinds[i], name) == 0)
            return account_store_kinds[i];
    ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
            errmsg("invalid account \"%s\", must be pairs or errors", name));
}

/* Returns NULL for a role that no longer exists. Owners without limits share an account. */
static char *
owner_name(Oid owner)
{
    return OidIsValid(owner) ? GetUserNameFromId(owner, true) : "clairon_app";
}

/*
 * report_denials(slot name, account text, owners oid[], changes bigint[], last_us bigint[]) ->
 * text: replaces the relay's report about an account of its store. The times are in us since 1970.
 * Returns the names of the owners.
 */
Datum
clairon_report_denials(PG_FUNCTION_ARGS)
{
    const char *slot = NameStr(*PG_GETARG_NAME(0));
    const char *kind = store_kind_of(text_to_cstring(PG_GETARG_TEXT_PP(1)));
    char path[MAXPGPATH];
    StringInfoData text;
    StringInfoData names;
    Datum *values[3];
    int counts[3];

    if (SearchNamedReplicationSlot(slot, true) == NULL)
        ereport(ERROR, errcode(ERRCODE_UNDEFINED_OBJECT),
                errmsg("replication slot \"%s\" does not exist", slot));
    for (int i = 0; i < 3; i++)
        deconstruct_array(PG_GETARG_ARRAYTYPE_P(2 + i), i == 0 ? OIDOID : INT8OID,
                          i == 0 ? sizeof(Oid) : sizeof(int64), i == 0 || FLOAT8PASSBYVAL,
                          i == 0 ? TYPALIGN_INT : TYPALIGN_DOUBLE, &values[i], NULL, &counts[i]);
    if (counts[1] != counts[0] || counts[2] != counts[0])
        ereport(ERROR, errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                errmsg("the arrays must have the same length"));
    initStringInfo(&text);
    initStringInfo(&names);
    for (int i = 0; i < counts[0] && text.len < ACCOUNT_REPORT_BYTES_MAX - REPORT_LINE_MAX; i++) {
        Oid owner = DatumGetObjectId(values[0][i]);
        char *name = owner_name(owner);

        appendStringInfo(&text, ACCOUNT_REPORT_LINE "\n", owner, kind,
                         (unsigned long long)DatumGetInt64(values[1][i]),
                         (long long)(DatumGetInt64(values[2][i]) - POSTGRES_EPOCH_US));
        appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", name == NULL ? "?" : name);
    }
    snprintf(path, sizeof(path), ACCOUNT_STORE_REPORT_PATH, slot, kind);
    account_write_report(path, text.data);
    PG_RETURN_TEXT_P(cstring_to_text_with_len(names.data, names.len));
}

static void
invalidate(HeapTuple tuple, TupleDesc desc)
{
    bool is_null;
    Datum relid = heap_getattr(tuple, RULE_RELATION, desc, &is_null);
    HeapTuple class;

    if (is_null)
        return;
    class = SearchSysCache1(RELOID, relid);
    /* A rule may exist slightly longer than its table. */
    if (!HeapTupleIsValid(class))
        return;
    CacheInvalidateRelcacheByTuple(class);
    ReleaseSysCache(class);
}

/*
 * Invalidates the relation of the rule, so that decoders drop its plans: rows of a user catalog
 * table send no invalidations themselves.
 */
Datum
clairon_rule_written(PG_FUNCTION_ARGS)
{
    TriggerData *trigger = (TriggerData *)fcinfo->context;
    TupleDesc desc;

    if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(trigger->tg_event) ||
        !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
        ereport(
            ERROR,
            (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
             errmsg(
                 "function clairon.rule_written() must be called by a row-level AFTER trigger")));
    desc = RelationGetDescr(trigger->tg_relation);
    invalidate(trigger->tg_trigtuple, desc);
    if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
        invalidate(trigger->tg_newtuple, desc);
    return PointerGetDatum(NULL);
}

/*
 * lock_rules(relation oid): prevents DROP TABLE and concurrent rule changes, since user catalog
 * tables do not support ON CONFLICT. The lock tag differs from the table's lock tag, so no other
 * command waits for it.
 */
Datum
clairon_lock_rules(PG_FUNCTION_ARGS)
{
    Oid relid = PG_GETARG_OID(0);

    LockRelationOid(relid, AccessShareLock);
    LockDatabaseObject(RelationRelationId, relid, 0, ExclusiveLock);
    PG_RETURN_VOID();
}

/* utf8(text) -> bytea: the text in UTF-8 as in frames, from any server encoding. */
Datum
clairon_utf8(PG_FUNCTION_ARGS)
{
    text *plain = PG_GETARG_TEXT_PP(0);
    int len;
    char *utf8 = encode_to_utf8(VARDATA_ANY(plain), VARSIZE_ANY_EXHDR(plain), &len);

    PG_RETURN_BYTEA_P(cstring_to_text_with_len(utf8, len));
}

/* utf8_length(text) -> integer: the length of the text in a frame, from any server encoding. */
Datum
clairon_utf8_length(PG_FUNCTION_ARGS)
{
    text *plain = PG_GETARG_TEXT_PP(0);
    int len;

    (void)encode_to_utf8(VARDATA_ANY(plain), VARSIZE_ANY_EXHDR(plain), &len);
    PG_RETURN_INT32(len);
}

/*
 * split_parts(text) -> text[]: splits a composite target at each + except \+; \\ is a backslash. No
 * server encoding uses these bytes in other characters.
 */
Datum
clairon_split_parts(PG_FUNCTION_ARGS)
{
    text *given = PG_GETARG_TEXT_PP(0);
    const char *at = VARDATA_ANY(given);
    const char *end = at + VARSIZE_ANY_EXHDR(given);
    ArrayBuildState *parts = NULL;
    StringInfoData part;

    initStringInfo(&part);
    for (; at < end; at++) {
        if (*at == '\\' && at + 1 < end && (at[1] == '+' || at[1] == '\\')) {
            appendStringInfoChar(&part, *++at);
        } else if (*at == '+') {
            parts = accumArrayResult(parts,
                                     PointerGetDatum(cstring_to_text_with_len(part.data, part.len)),
                                     false, TEXTOID, CurrentMemoryContext);
            resetStringInfo(&part);
        } else {
            appendStringInfoChar(&part, *at);
        }
    }
    parts = accumArrayResult(parts, PointerGetDatum(cstring_to_text_with_len(part.data, part.len)),
                             false, TEXTOID, CurrentMemoryContext);
    PG_RETURN_DATUM(makeArrayResult(parts, CurrentMemoryContext));
}

/* RFC 9562 version 7: 48 bits of time in ms, then random bits. */
Datum
clairon_uuid_v7(PG_FUNCTION_ARGS)
{
    pg_uuid_t *id = palloc(sizeof(*id));
    uint64 ms = (GetCurrentTimestamp() + POSTGRES_EPOCH_US) / 1000;

    if (!pg_strong_random(id->data, UUID_LEN))
        ereport(ERROR,
                (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
    for (int i = 0; i < 6; i++)
        id->data[i] = ms >> (40 - 8 * i);
    id->data[6] = (id->data[6] & 0x0F) | 0x70;
    id->data[8] = (id->data[8] & 0x3F) | 0x80;
    PG_RETURN_UUID_P(id);
}

static const char *
utf8_argument(FunctionCallInfo fcinfo, int number, const char *parameter, int *ret_len)
{
    char *plain = text_to_cstring(PG_GETARG_TEXT_PP(number));
    const char *utf8 = encode_to_utf8(plain, strlen(plain), ret_len);

    if (*ret_len > TEXT_BYTES_MAX)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("parameter \"%s\" is longer than %d bytes", parameter, TEXT_BYTES_MAX)));
    return utf8;
}

static void
read_targets(struct target_list *list, ArrayType *array, int bytes_max)
{
    Datum *elements;
    bool *nulls;
    int count;

    deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
    target_list_reserve(list, count);
    for (int i = 0; i < count; i++) {
        char *plain;

        if (nulls[i])
            continue;
        plain = text_to_cstring((text *)DatumGetPointer(elements[i]));
        list->texts[list->count] =
            encode_to_utf8(plain, strlen(plain), &list->lengths[list->count]);
        if (list->lengths[list->count] > bytes_max)
            ereport(ERROR,
                    (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                     errmsg("parameter \"targets\" has a value longer than %d bytes", bytes_max)));
        list->count++;
    }
}

static void
read_payload(struct message *message, Datum payload)
{
    const struct encode_settings settings = {.limit = PAYLOAD_BYTES_MAX};
    struct encoder encoder = {.settings = &settings};
    StringInfoData text;

    initStringInfo(&text);
    encode_jsonb(&encoder, &text, payload);
    if (text.len > PAYLOAD_BYTES_MAX)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("parameter \"payload\" is larger than 1 MB")));
    message->payload = text.data;
    message->payload_len = text.len;
}

/*
 * Reads the setting clairon.traceparent. Tracing code sets it for a session or a transaction,
 * without changes in the code that calls notify. An invalid value causes a warning, not an error.
 */
static void
read_traceparent(struct message *message)
{
    const char *given = GetConfigOption("clairon.traceparent", true, false);
    char *parsed = palloc(TRACEPARENT_LEN + 1);

    if (given == NULL || given[0] == '\0')
        return;
    if (!traceparent_read(given, strlen(given), parsed)) {
        ereport(WARNING,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("invalid value for parameter \"clairon.traceparent\": \"%s\"", given),
                 errdetail("The notification is sent without a traceparent."),
                 errhint("The format is " TRACEPARENT_VALID ".")));
        return;
    }
    message->traceparent = parsed;
    message->flags |= FRAME_TRACED;
}

/* The message is in the WAL, but it cannot be decoded. */
static void
warn_wal_level(void)
{
    if (XLogLogicalInfoActive())
        return;
    ereport(WARNING,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("wal_level is insufficient for logical decoding"),
             errdetail("The notification is lost."),
             errhint("Set wal_level = logical in postgresql.conf and restart the server.")));
}

static void
write_message(const struct message *message)
{
    TransactionId xid = GetTopTransactionId();
    uint8 secret[SECRET_BYTES];
    StringInfoData bytes;

    if (!rules_read_secret(get_namespace_oid("clairon", false), secret))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table \"clairon.secret\" is empty")));
    initStringInfo(&bytes);
    message_build(&bytes, message, xid, secret);
#if PG_VERSION_NUM >= 170000
    (void)LogLogicalMessage(MESSAGE_PREFIX, bytes.data, bytes.len, true, false);
#else
    (void)LogLogicalMessage(MESSAGE_PREFIX, bytes.data, bytes.len, true);
#endif
}

/* clairon.notify has checked the arguments. A direct call of emit must not crash the server. */
static void
check_arguments(FunctionCallInfo fcinfo)
{
    for (int i = 0; i < PG_NARGS(); i++)
        if (PG_ARGISNULL(i) && i != EMIT_TOPIC && i != EMIT_TTL && i != EMIT_ACK_TIMEOUT)
            ereport(ERROR,
                    (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                     errmsg("argument %d of function clairon.emit() must not be null", i + 1)));
    if (!frame_values_are_valid(PG_GETARG_INT16(4), PG_GETARG_INT16(5), PG_GETARG_INT16(12)))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("arguments type, priority and backoff of function clairon.emit() "
                               "must be between 0 and 2")));
}

/*
 * emit(id uuid, audience text, targets text[], payload jsonb, type int2, priority int2, source
 * text, topic text, emitter text, ttl interval, ack_required bool, retry_limit int4, backoff int2,
 * ack_timeout int8). Only topic, ttl and ack_timeout may be NULL.
 */
Datum
clairon_emit(PG_FUNCTION_ARGS)
{
    struct message message = {0};

    PreventCommandDuringRecovery("clairon.notify()");
    check_arguments(fcinfo);
    message.id = *PG_GETARG_UUID_P(0);
    message.audience = utf8_argument(fcinfo, 1, "audience", &message.audience_len);
    read_targets(&message.targets, PG_GETARG_ARRAYTYPE_P(2),
                 strchr(message.audience, '+') != NULL ? LIMIT_COMPOSITE : LIMIT_TARGET);
    read_payload(&message, PG_GETARG_DATUM(3));
    message.type = PG_GETARG_INT16(4);
    message.priority = PG_GETARG_INT16(5);
    message.source = utf8_argument(fcinfo, 6, "source", &message.source_len);
    if (!PG_ARGISNULL(EMIT_TOPIC))
        message.topic = utf8_argument(fcinfo, EMIT_TOPIC, "topic", &message.topic_len);
    message.emitter = utf8_argument(fcinfo, 8, "emitter", &message.emitter_len);
    message.has_ttl = !PG_ARGISNULL(EMIT_TTL);
    if (message.has_ttl)
        message.ttl = *PG_GETARG_INTERVAL_P(EMIT_TTL);
    message.flags = PG_GETARG_BOOL(10) ? FRAME_ACK_REQUIRED | FRAME_RETRY_ENABLED : 0;
    if (PG_GETARG_BOOL(10) && !PG_ARGISNULL(EMIT_ACK_TIMEOUT)) {
        message.ack_timeout = (uint32)PG_GETARG_INT64(EMIT_ACK_TIMEOUT);
        message.flags |= FRAME_ACK_TIMED;
    }
    read_traceparent(&message);
    message.retry_limit = PG_GETARG_INT32(11);
    message.backoff = PG_GETARG_INT16(12);
    write_message(&message);
    warn_wal_level();
    PG_RETURN_VOID();
}
