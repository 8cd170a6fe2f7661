/* time.c: encode dates and times in ISO 8601, independent of the session's settings. */
#include "encode/encode.h"

#include "datatype/timestamp.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

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

void
encode_timestamp(struct encoder *encoder, StringInfo out, Datum value)
{
    encode_stamp(out, DatumGetTimestamp(value), false);
}

void
encode_timestamptz(struct encoder *encoder, StringInfo out, Datum value)
{
    encode_stamp(out, DatumGetTimestampTz(value), true);
}

void
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

void
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
