/*
 * logical_message.c: logical messages of the extension's functions, signed.
 *
 * The content is base64, since other output plugins print messages as text. Any user can call
 * pg_logical_emit_message with any prefix, so the content is signed by an HMAC over the
 * transaction's id and all bytes after the MAC, with a secret that only C code reads. The id
 * prevents a replay in another transaction. Integers are big-endian, strings UTF-8.
 *
 *    0  1  version        MESSAGE_VERSION
 *    1 16  mac            HMAC-SHA256, truncated
 *   17     see notify.c and annotation.c
 */
#include "changes/changes.h"

#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/namespace.h"
#include "catalog/pg_control.h"
#include "common/base64.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "libpq/pqformat.h"
#include "replication/message.h"
#include "utils/memutils.h"

#include "decoder.h"
#include "encode/encode.h"
#include "rules/rules.h"

#define MESSAGE_VERSION 1
#define MESSAGE_MAC_AT 1
#define MESSAGE_MAC_BYTES 16

static void
sign(uint8 ret_mac[MESSAGE_MAC_BYTES], TransactionId xid, const char *bytes, Size size,
     const uint8 secret[SECRET_BYTES])
{
    pg_hmac_ctx *hmac = pg_hmac_create(PG_SHA256);
    uint8 digest[PG_SHA256_DIGEST_LENGTH];
    uint32 bound = pg_hton32(xid);

    if (hmac == NULL || pg_hmac_init(hmac, secret, SECRET_BYTES) < 0 ||
        pg_hmac_update(hmac, (const uint8 *)&bound, sizeof(bound)) < 0 ||
        pg_hmac_update(hmac, (const uint8 *)bytes, size) < 0 ||
        pg_hmac_final(hmac, digest, sizeof(digest)) < 0)
        elog(ERROR, "could not compute the HMAC of a clairon message");
    pg_hmac_free(hmac);
    memcpy(ret_mac, digest, MESSAGE_MAC_BYTES);
}

/* The pointer types differ between versions of PostgreSQL: the casts to void avoid a warning. */
static void
append_base64(StringInfo out, const StringInfoData *bytes)
{
    int room = pg_b64_enc_len(bytes->len);
    int len;

    enlargeStringInfo(out, room);
    len = pg_b64_encode((const void *)bytes->data, bytes->len, out->data + out->len, room);
    if (len < 0)
        elog(ERROR, "could not encode a clairon message");
    out->len += len;
    out->data[out->len] = '\0';
}

void
message_begin(StringInfo out)
{
    static const char no_mac[MESSAGE_MAC_BYTES] = {0};

    initStringInfo(out);
    pq_sendbyte(out, MESSAGE_VERSION);
    appendBinaryStringInfo(out, no_mac, MESSAGE_MAC_BYTES);
}

/*
 * The reorder buffer sorts a message by the end of its record, and a row by the start. A row of
 * another subtransaction that directly follows the message would have the same LSN, and could be
 * decoded first. An empty record between them prevents this.
 */
static void
separate_from_next_row(void)
{
    XLogBeginInsert();
    (void)XLogInsert(RM_XLOG_ID, XLOG_NOOP);
}

void
message_write(const char *prefix, StringInfo bytes)
{
    uint8 secret[SECRET_BYTES];
    StringInfoData content;

    if (!rules_read_secret(get_namespace_oid("clairon", false), secret))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table \"clairon.secret\" is empty")));
    sign((uint8 *)bytes->data + MESSAGE_MAC_AT, GetTopTransactionId(),
         bytes->data + MESSAGE_SIGNED_AT, bytes->len - MESSAGE_SIGNED_AT, secret);
    initStringInfo(&content);
    append_base64(&content, bytes);
#if PG_VERSION_NUM >= 170000
    (void)LogLogicalMessage(prefix, content.data, content.len, true, false);
#else
    (void)LogLogicalMessage(prefix, content.data, content.len, true);
#endif
    separate_from_next_row();
}

/*
 * Decodes the content of a logical message, in the current memory context. Returns NULL when the
 * content is not base64.
 */
static const char *
message_unpack(const char *content, Size size, Size *ret_size)
{
    void *bytes;
    int len;

    /*
     * A limit above the largest message of clairon.notify, and within the range of pg_b64_dec_len.
     */
    if (size == 0 || size > MaxAllocSize / 4)
        return NULL;
    bytes = palloc(pg_b64_dec_len((int)size) + 1);
    len = pg_b64_decode(content, (int)size, bytes, pg_b64_dec_len((int)size));
    if (len < 0)
        return NULL;
    *ret_size = len;
    return bytes;
}

/* Constant time: the duration must not depend on the number of correct bytes in a guess. */
static bool
mac_equal(const uint8 *a, const uint8 *b)
{
    uint8 difference = 0;

    for (int i = 0; i < MESSAGE_MAC_BYTES; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

const char *
message_verify(struct decoder *decoder, TransactionId xid, const char *content, Size content_size,
               Size size_min, Size *ret_size)
{
    uint8 mac[MESSAGE_MAC_BYTES];
    Size size;
    const char *bytes = message_unpack(content, content_size, &size);

    relation_refresh_rules(decoder, xid);
    if (bytes == NULL || !decoder->rules->has_secret)
        return NULL;
    if (size < size_min || (uint8)bytes[0] != MESSAGE_VERSION)
        return NULL;
    sign(mac, xid, bytes + MESSAGE_SIGNED_AT, size - MESSAGE_SIGNED_AT, decoder->rules->secret);
    if (!mac_equal(mac, (const uint8 *)bytes + MESSAGE_MAC_AT))
        return NULL;
    *ret_size = size;
    return bytes;
}
