/*
 * encode.c: values to JSON: text, numbers, times, and the choice of an encoder for a type; the
 * envelope of a notification.
 */
#include "encode/encode.h"

#include <math.h>

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "datatype/timestamp.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "base/data.h"
#include "encode/json.h"
#include "protocol/limits.h"

/* The chunk size for escaping: limits the memory that is reserved for a long value. */
#define ESCAPE_CHUNK 4096

/* The largest integer that all JSON parsers represent exactly. */
#define SAFE_INTEGER INT64CONST(9007199254740991)

/* A nested value's output is cut there as a target: above LIMIT_TARGET it is ignored anyway. */
#define DEEP_PLAIN_BYTES_MAX 65536

static void
escape_utf8(const struct encode_settings *settings, StringInfo out, const char *text, size_t len)
{
    while (len > 0 && out->len <= settings->limit) {
        size_t chunk = json_cut(text, len, ESCAPE_CHUNK);
        char *dst = encode_reserve(out, JSON_ESCAPE_GROWTH * chunk);

        out->len = json_escape(dst, text, chunk, settings->ascii) - out->data;
        text += chunk;
        len -= chunk;
    }
}

static bool
has_wide(const char *text, int len)
{
    for (int i = 0; i < len; i++)
        if (IS_HIGHBIT_SET(text[i]))
            return true;
    return false;
}

/* Each character or byte that cannot be converted becomes U+FFFD. */
char *
encode_to_utf8(char *text, int len, int *ret_len)
{
    int encoding = GetDatabaseEncoding();
    Oid convert;
    StringInfoData utf8;

    *ret_len = len;
    if (encoding == PG_UTF8 || !has_wide(text, len))
        return text;
    if (encoding == PG_SQL_ASCII) {
        char *clean = palloc(3 * (Size)len);

        *ret_len = json_clean(clean, text, len) - clean;
        return clean;
    }
    convert = FindDefaultConversionProc(encoding, PG_UTF8);
    initStringInfo(&utf8);
    while (len > 0) {
        int room = len * MAX_CONVERSION_GROWTH + 1;
        char *dst = encode_reserve(&utf8, room + 3);
        int used = 0;

        if (OidIsValid(convert))
            used = pg_do_encoding_conversion_buf(convert, encoding, PG_UTF8, (unsigned char *)text,
                                                 len, (unsigned char *)dst, room, true);
        if (used > 0)
            utf8.len += strlen(dst);
        text += used;
        len -= used;
        if (len > 0 && !IS_HIGHBIT_SET(*text)) {
            /* ASCII needs no conversion, and for MULE_INTERNAL none exists. */
            encode_raw(&utf8, text++, 1);
            len--;
        } else if (len > 0) {
            int bad = Min(len, Max(1, pg_encoding_mblen(encoding, text)));

            encode_literal(&utf8, "\xEF\xBF\xBD");
            text += bad;
            len -= bad;
        }
    }
    *ret_len = utf8.len;
    return utf8.data;
}

void
encode_utf8_text(const struct encode_settings *settings, StringInfo out, const char *utf8, int len)
{
    if (len <= ESCAPE_CHUNK) {
        char *dst = encode_reserve(out, JSON_ESCAPE_GROWTH * len + 2);

        *dst++ = '"';
        dst = json_escape(dst, utf8, len, settings->ascii);
        *dst++ = '"';
        out->len = dst - out->data;
        return;
    }
    encode_literal(out, "\"");
    escape_utf8(settings, out, utf8, len);
    encode_literal(out, "\"");
}

void
encode_text(const struct encode_settings *settings, StringInfo out, const char *text, int len)
{
    int utf8_len;
    char *utf8 = encode_to_utf8((char *)text, len, &utf8_len);

    encode_utf8_text(settings, out, utf8, utf8_len);
    if (utf8 != text)
        pfree(utf8);
}

void
encode_text_part(const struct encode_settings *settings, StringInfo out, const char *text, int len)
{
    int utf8_len;
    char *utf8 = encode_to_utf8((char *)text, len, &utf8_len);

    escape_utf8(settings, out, utf8, utf8_len);
    if (utf8 != text)
        pfree(utf8);
}

char *
encode_name(const struct encode_settings *settings, const char *name, int *ret_len)
{
    StringInfoData out;
    char *kept;

    initStringInfo(&out);
    encode_text(settings, &out, name, strlen(name));
    encode_literal(&out, ":");
    kept = pnstrdup(out.data, out.len);
    pfree(out.data);
    *ret_len = out.len;
    return kept;
}

static void
encode_bool(struct encoder *encoder, StringInfo out, Datum value)
{
    if (DatumGetBool(value))
        encode_literal(out, "true");
    else
        encode_literal(out, "false");
}

static void
encode_int2(struct encoder *encoder, StringInfo out, Datum value)
{
    out->len += pg_ltoa(DatumGetInt16(value), encode_reserve(out, 16));
}

static void
encode_int4(struct encoder *encoder, StringInfo out, Datum value)
{
    out->len += pg_ltoa(DatumGetInt32(value), encode_reserve(out, 16));
}

static void
encode_int8(struct encoder *encoder, StringInfo out, Datum value)
{
    int64 number = DatumGetInt64(value);
    bool quoted = number > SAFE_INTEGER || number < -SAFE_INTEGER;

    if (quoted)
        encode_literal(out, "\"");
    out->len += pg_lltoa(number, encode_reserve(out, 32));
    if (quoted)
        encode_literal(out, "\"");
}

static void
encode_not_finite(StringInfo out, double number)
{
    if (isnan(number))
        encode_literal(out, "\"NaN\"");
    else if (number > 0)
        encode_literal(out, "\"Infinity\"");
    else
        encode_literal(out, "\"-Infinity\"");
}

static void
encode_float4(struct encoder *encoder, StringInfo out, Datum value)
{
    float4 number = DatumGetFloat4(value);

    if (!isfinite(number))
        encode_not_finite(out, number);
    else
        out->len +=
            float_to_shortest_decimal_bufn(number, encode_reserve(out, FLOAT_SHORTEST_DECIMAL_LEN));
}

static void
encode_float8(struct encoder *encoder, StringInfo out, Datum value)
{
    float8 number = DatumGetFloat8(value);

    if (!isfinite(number))
        encode_not_finite(out, number);
    else
        out->len += double_to_shortest_decimal_bufn(
            number, encode_reserve(out, DOUBLE_SHORTEST_DECIMAL_LEN));
}

static char *
print_value(struct encoder *encoder, Datum value)
{
    if (encoder->is_deep)
        encoders_load_row_types(encoder->encoders);
    return encode_print(encoder, value);
}

/* An output function may keep memory, and an array may call it many times. */
void
encode_output(struct encoder *encoder, StringInfo out, Datum value)
{
    MemoryContext texts = encoder->encoders->texts;
    MemoryContext old = MemoryContextSwitchTo(texts);
    char *text = print_value(encoder, value);

    encode_text(encoder->settings, out, text, strlen(text));
    MemoryContextSwitchTo(old);
    MemoryContextReset(texts);
}

static void
encode_numeric(struct encoder *encoder, StringInfo out, Datum value)
{
    Numeric number = DatumGetNumeric(value);
    bool quoted =
        !encoder->settings->numeric_as_number || numeric_is_nan(number) || numeric_is_inf(number);
    char *text = OutputFunctionCall(&encoder->output, NumericGetDatum(number));

    if (quoted)
        encode_literal(out, "\"");
    encode_raw(out, text, strlen(text));
    if (quoted)
        encode_literal(out, "\"");
    pfree(text);
    encode_free_copy(number, value);
}

void
encode_varlena_text(struct encoder *encoder, StringInfo out, Datum value)
{
    struct varlena *text = PG_DETOAST_DATUM_PACKED(value);

    encode_text(encoder->settings, out, VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text));
    encode_free_copy(text, value);
}

static void
encode_name_type(struct encoder *encoder, StringInfo out, Datum value)
{
    const char *text = NameStr(*DatumGetName(value));

    encode_text(encoder->settings, out, text, strlen(text));
}

/* Writes eight hexadecimal digits in parallel, one in each byte, most significant first. */
static void
put_digits(char *dst, uint32 value)
{
    uint64 spread = value;
    uint64 letters;

    spread = ((spread << 16) | spread) & UINT64CONST(0x0000FFFF0000FFFF);
    spread = ((spread << 8) | spread) & UINT64CONST(0x00FF00FF00FF00FF);
    spread = ((spread << 4) | spread) & UINT64CONST(0x0F0F0F0F0F0F0F0F);
    /* 1 in each byte whose digit is above 9 */
    letters = ((spread + UINT64CONST(0x0606060606060606)) >> 4) & UINT64CONST(0x0101010101010101);
    spread += UINT64CONST(0x3030303030303030) + letters * ('a' - '0' - 10);
    spread = pg_hton64(spread);
    memcpy(dst, &spread, sizeof(spread));
}

void
encode_put_uuid(StringInfo out, const pg_uuid_t *id)
{
    char *dst = encode_reserve(out, 36);
    char digits[32];

    for (int i = 0; i < 4; i++) {
        uint32 part;

        memcpy(&part, id->data + 4 * i, sizeof(part));
        put_digits(digits + 8 * i, pg_ntoh32(part));
    }
    memcpy(dst, digits, 8);
    dst[8] = dst[13] = dst[18] = dst[23] = '-';
    memcpy(dst + 9, digits + 8, 4);
    memcpy(dst + 14, digits + 12, 4);
    memcpy(dst + 19, digits + 16, 4);
    memcpy(dst + 24, digits + 20, 12);
    out->len += 36;
}

static void
encode_uuid(struct encoder *encoder, StringInfo out, Datum value)
{
    encode_literal(out, "\"");
    encode_put_uuid(out, DatumGetUUIDP(value));
    encode_literal(out, "\"");
}

static void
encode_bytea(struct encoder *encoder, StringInfo out, Datum value)
{
    struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);
    int len = VARSIZE_ANY_EXHDR(bytes);
    char *dst = encode_reserve(out, len / 3 * 4 + 6);

    *dst++ = '"';
    dst = json_base64(dst, (unsigned char *)VARDATA_ANY(bytes), len);
    *dst++ = '"';
    out->len = dst - out->data;
    encode_free_copy(bytes, value);
}

/* Dates and times in ISO 8601, independent of the session's settings. */

/* 20 cycles of 400 years after the PostgreSQL epoch, 2000. */
#define DAYS_UP_TO_YEAR_10000 (INT64CONST(20) * 146097)

/* Room for "-infinity", or for a year of six digits with µs, Z and BC. */
#define TIME_TEXT_MAX 48

/* `number`: 0 to 99. */
static inline char *
put_two(char *dst, int number)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";

    memcpy(dst, pairs + 2 * number, 2);
    return dst + 2;
}

/* Years before 1 are counted backwards; the caller appends " BC". */
static char *
put_date(char *dst, int year, int month, int day)
{
    int printed = year > 0 ? year : 1 - year;

    if (printed > 9999) {
        dst += pg_ltoa(printed, dst);
    } else {
        dst = put_two(dst, printed / 100);
        dst = put_two(dst, printed % 100);
    }
    *dst++ = '-';
    dst = put_two(dst, month);
    *dst++ = '-';
    return put_two(dst, day);
}

/* `digits`: digits of the fraction; -1: no trailing zeros. */
static char *
put_clock(char *dst, int64 time_us, int digits)
{
    int seconds = time_us / USECS_PER_SEC;
    int fraction = time_us % USECS_PER_SEC;

    dst = put_two(dst, seconds / SECS_PER_HOUR);
    *dst++ = ':';
    dst = put_two(dst, seconds / SECS_PER_MINUTE % MINS_PER_HOUR);
    *dst++ = ':';
    dst = put_two(dst, seconds % SECS_PER_MINUTE);
    if (fraction == 0 && digits < 0)
        return dst;
    *dst++ = '.';
    dst = put_two(dst, fraction / 10000);
    dst = put_two(dst, fraction / 100 % 100);
    dst = put_two(dst, fraction % 100);
    while (digits < 0 && dst[-1] == '0')
        dst--;
    return dst;
}

static char *
put_timestamp(char *dst, Timestamp value, int digits, bool zulu)
{
    int64 days = value / USECS_PER_DAY;
    int64 time_us = value % USECS_PER_DAY;
    int year;
    int month;
    int day;

    if (time_us < 0) {
        time_us += USECS_PER_DAY;
        days--;
    }
    j2date((int)days + POSTGRES_EPOCH_JDATE, &year, &month, &day);
    dst = put_date(dst, year, month, day);
    *dst++ = 'T';
    dst = put_clock(dst, time_us, digits);
    if (zulu)
        *dst++ = 'Z';
    if (year <= 0) {
        memcpy(dst, " BC", 3);
        dst += 3;
    }
    return dst;
}

static void
encode_stamp(StringInfo out, Timestamp value, bool zulu)
{
    char *dst = encode_reserve(out, TIME_TEXT_MAX);

    if (TIMESTAMP_IS_NOBEGIN(value)) {
        encode_literal(out, "\"-infinity\"");
    } else if (TIMESTAMP_IS_NOEND(value)) {
        encode_literal(out, "\"infinity\"");
    } else {
        *dst++ = '"';
        dst = put_timestamp(dst, value, -1, zulu);
        *dst++ = '"';
        out->len = dst - out->data;
    }
}

static void
encode_timestamp(struct encoder *encoder, StringInfo out, Datum value)
{
    encode_stamp(out, DatumGetTimestamp(value), false);
}

static void
encode_timestamptz(struct encoder *encoder, StringInfo out, Datum value)
{
    encode_stamp(out, DatumGetTimestampTz(value), true);
}

static void
encode_date(struct encoder *encoder, StringInfo out, Datum value)
{
    DateADT date = DatumGetDateADT(value);
    char *dst = encode_reserve(out, TIME_TEXT_MAX);
    int year;
    int month;
    int day;

    if (DATE_IS_NOBEGIN(date)) {
        encode_literal(out, "\"-infinity\"");
        return;
    }
    if (DATE_IS_NOEND(date)) {
        encode_literal(out, "\"infinity\"");
        return;
    }
    j2date(date + POSTGRES_EPOCH_JDATE, &year, &month, &day);
    *dst++ = '"';
    dst = put_date(dst, year, month, day);
    out->len = dst - out->data;
    if (year <= 0)
        encode_literal(out, " BC");
    encode_literal(out, "\"");
}

static void
encode_time(struct encoder *encoder, StringInfo out, Datum value)
{
    char *dst = encode_reserve(out, TIME_TEXT_MAX);

    *dst++ = '"';
    dst = put_clock(dst, DatumGetTimeADT(value), -1);
    *dst++ = '"';
    out->len = dst - out->data;
}

char *
encode_instant(char *out, TimestampTz value)
{
    return put_timestamp(out, value, 6, true);
}

/* A replication origin may set any commit time; RFC 3339 years have four digits. */
TimestampTz
encode_clamp_time(TimestampTz time)
{
    const TimestampTz first = -POSTGRES_EPOCH_US;
    const TimestampTz last = DAYS_UP_TO_YEAR_10000 * USECS_PER_DAY - 1;

    return Max(first, Min(last, time));
}

struct native {
    Oid type;
    encode_function write;
};

static const struct native natives[] = {
    {BOOLOID, encode_bool},
    {INT2OID, encode_int2},
    {INT4OID, encode_int4},
    {INT8OID, encode_int8},
    {FLOAT4OID, encode_float4},
    {FLOAT8OID, encode_float8},
    {NUMERICOID, encode_numeric},
    {TEXTOID, encode_varlena_text},
    {VARCHAROID, encode_varlena_text},
    {BPCHAROID, encode_varlena_text},
    {NAMEOID, encode_name_type},
    {UUIDOID, encode_uuid},
    {BYTEAOID, encode_bytea},
    {JSONOID, encode_json},
    {JSONBOID, encode_jsonb},
    {DATEOID, encode_date},
    {TIMEOID, encode_time},
    {TIMESTAMPOID, encode_timestamp},
    {TIMESTAMPTZOID, encode_timestamptz},
    {INT2VECTOROID, encode_array},
    {OIDVECTOROID, encode_array},
};

static const struct native *
find_native(Oid type)
{
    for (size_t i = 0; i < lengthof(natives); i++)
        if (natives[i].type == type)
            return &natives[i];
    return NULL;
}

bool
encode_is_native(Oid type)
{
    return find_native(type) != NULL;
}

encode_function
encode_choose(Oid type, Oid element)
{
    const struct native *native = find_native(type);

    if (native != NULL)
        return native->write;
    if (OidIsValid(element))
        return encode_array;
    switch (get_typtype(type)) {
    case TYPTYPE_COMPOSITE:
        return encode_composite;
    case TYPTYPE_MULTIRANGE:
        return encode_multirange;
    default:
        return type == RECORDOID ? encode_composite : encode_output;
    }
}

char *
encode_plain(struct encoder *encoder, Datum value, int *ret_len)
{
    char *plain;
    int len;

    if (encoder->write == encode_varlena_text) {
        struct varlena *text = PG_DETOAST_DATUM_PACKED(value);

        plain = VARDATA_ANY(text);
        len = VARSIZE_ANY_EXHDR(text);
    } else {
        plain = print_value(encoder, value);
        len = strlen(plain);
        if (encoder->is_deep)
            len = Min(len, DEEP_PLAIN_BYTES_MAX);
    }
    if (encoder->type == BPCHAROID)
        while (len > 0 && plain[len - 1] == ' ')
            len--;
    return encode_to_utf8(plain, len, ret_len);
}

/* Parts of an envelope, as protocol/envelope.h describes it. */

/* The destination of envelope_write. */
struct envelope_target {
    const struct encode_settings *settings;
    StringInfo out;
};

static void
put_envelope_raw(void *to, const char *bytes, size_t len)
{
    encode_raw(((struct envelope_target *)to)->out, bytes, len);
}

static void
put_envelope_text(void *to, const char *utf8, size_t len)
{
    struct envelope_target *target = to;

    encode_utf8_text(target->settings, target->out, utf8, len);
}

void
encode_envelope(const struct encode_settings *settings, StringInfo out,
                const struct envelope *envelope, enum envelope_field first,
                enum envelope_field last)
{
    struct envelope_target target = {settings, out};
    const struct envelope_writer writer = {&target, put_envelope_raw, put_envelope_text};

    envelope_write(&writer, envelope, first, last);
}

void
encode_read_targets(struct target_list *list, ArrayType *array)
{
    Datum *elements;
    bool *nulls;
    int count;

    deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
    target_list_reserve(list, count);
    for (int i = 0; i < count; i++) {
        text *element = (text *)DatumGetPointer(elements[i]);

        if (nulls[i])
            continue;
        list->texts[list->count] = encode_to_utf8(VARDATA_ANY(element), VARSIZE_ANY_EXHDR(element),
                                                  &list->lengths[list->count]);
        list->count++;
    }
    pfree(elements);
    pfree(nulls);
}

void
encode_targets(const struct encode_settings *settings, StringInfo out,
               const struct target_list *targets, bool for_recipients)
{
    if (for_recipients && targets->count > LIMIT_TARGETS_SENT) {
        encode_literal(out, "[]" ENVELOPE_RECIPIENTS_TEXT);
        appendStringInfo(out, "%d", targets->count);
        return;
    }
    encode_literal(out, "[");
    for (int i = 0; i < targets->count; i++) {
        if (i > 0)
            encode_literal(out, ",");
        encode_utf8_text(settings, out, targets->texts[i], targets->lengths[i]);
    }
    encode_literal(out, "]");
}
