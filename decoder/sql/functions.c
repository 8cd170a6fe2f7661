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
#include "encode/encode.h"
#include "protocol/limits.h"
#include "protocol/version.h"
#include "rules/rules.h"

#define REPORT_LINE_MAX 100

PG_FUNCTION_INFO_V1(clairon_version);
PG_FUNCTION_INFO_V1(clairon_rule_written);
PG_FUNCTION_INFO_V1(clairon_lock_rules);
PG_FUNCTION_INFO_V1(clairon_uuid_v7);
PG_FUNCTION_INFO_V1(clairon_utf8);
PG_FUNCTION_INFO_V1(clairon_utf8_length);
PG_FUNCTION_INFO_V1(clairon_split_parts);
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
