/* encode.h: datums to JSON, one encoder per column, resolved once. */
#ifndef CLAIRON_ENCODE_H
#define CLAIRON_ENCODE_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/data.h"
#include "protocol/envelope.h"

/* The PostgreSQL epoch, 2000-01-01, as Unix time. */
#define POSTGRES_EPOCH_US ((int64)(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

struct encoder;
struct encoders;

/*
 * The possible damage of an error in an output function. Errors in PostgreSQL's own functions, such
 * as a deleted enum label or a string above 1 GB, leak no resources.
 */
enum encode_risk {
    RISK_NONE,  /* the function raises no errors */
    RISK_VALUE, /* only the value is lost */
    RISK_ALL    /* unknown: run it in a subtransaction */
};

/* Settings of all encoders of a decoder or of a function call. */
struct encode_settings {
    bool ascii;             /* ASCII output, with \u escapes */
    bool numeric_as_number; /* otherwise as a string */
    int limit;              /* in bytes; encoders stop when the buffer is longer */
};

typedef void (*encode_function)(struct encoder *encoder, StringInfo out, Datum value);

/* One member of a composite. */
struct encode_member {
    int name_at; /* of "name": in the encoder's names */
    int name_len;
    int index;
    struct encoder *encoder;
};

struct encoder {
    encode_function write;
    const struct encode_settings *settings;
    struct encoders *encoders;
    Oid type;        /* base type */
    FmgrInfo output; /* output function of the base type */
    int16 typlen;
    bool typbyval;
    char typalign;
    bool is_deep;            /* the output function prints values of other types: encode_print */
    struct encoder *element; /* encoder of an array's elements, or of a range's bounds */
    struct encoder *range;   /* encoder of a multirange's ranges */
    enum encode_risk risk;   /* of a column, see encode_guarded */
    char *fault;             /* message of the last error */
    /* For a composite: the members of the last row type. */
    Oid row_type;
    int32 row_typmod;
    uint64 row_identifier;
    int member_count;
    struct encode_member *members;
    char *names; /* of all members */
};

/* Runs work(work_arg) with limits on time and memory. Returns false after an error. */
typedef bool (*encode_limiter)(void *arg, void (*work)(void *work_arg), void *work_arg,
                               char **ret_reason);

/* Returns false when `more` bytes are too many. */
typedef bool (*encode_has_room)(void *arg, Size more);

/*
 * One encoder for each type that values of some columns contain. A row type is prepared once,
 * however often others contain it: a few types of 1600 members contain each other a million times.
 */
struct encoders {
    const struct encode_settings *settings;
    MemoryContext context; /* contains the encoders */
    MemoryContext values;  /* for one value of a column */
    MemoryContext texts;   /* for the output of one function */
    encode_limiter limiter;
    void *limiter_arg;
    int count;
    int prepared; /* the elements and members of this number of encoders are prepared */
    bool has_row_types;
    uint64 loaded;         /* the invalidations before the last encoders_load_row_types */
    struct encoder **list; /* in the order of creation */
    uint32 slot_count;
    uint32 *slots; /* index in `list`, plus 1, by type */
};

/* encoders.c */
/* `limiter` limits output functions of nested types. The memory is that of the current context. */
extern struct encoders *encoders_new(const struct encode_settings *settings, encode_limiter limiter,
                                     void *limiter_arg);
/* Returns the encoder of the base type. Its elements and members may be prepared later. */
extern struct encoder *encoders_get(struct encoders *encoders, Oid type);
/* Returns the encoder for a column. */
extern struct encoder *encoders_get_column(struct encoders *encoders, Oid type);
/*
 * Prepares the elements and members of all encoders, and theirs. Asks `has_room` before each type,
 * unless it is NULL. Returns false when has_room() does.
 */
extern bool encoders_prepare(struct encoders *encoders, encode_has_room has_room, void *arg);
/* Loads all row types, so that PostgreSQL's functions do not wait for locks of their tables. */
extern void encoders_load_row_types(struct encoders *encoders);
/* Like lookup_rowtype_tupdesc, without a lock. Also returns the identifier of the row type. */
extern TupleDesc encoders_row_type(Oid type, int32 typmod, uint64 *ret_identifier);

/*
 * Prefers the native encoder, then the encoder for arrays or composites, then the output function.
 */
extern encode_function encode_choose(Oid type, Oid element);
/* Writes strings for a type that shares the output function of text. */
extern void encode_varlena_text(struct encoder *encoder, StringInfo out, Datum value);
extern void encode_output(struct encoder *encoder, StringInfo out, Datum value);

/* True when the buffer exceeds the limit. Every encoding loop must then end. */
static inline bool
encode_is_over(const struct encoder *encoder, StringInfo out)
{
    return out->len > encoder->settings->limit;
}

/* True for a type that needs no output function, so that its encoder raises no errors. */
extern bool encode_is_native(Oid type);

/* Returns a varlena's size before compression and TOAST; 0 for other types. */
extern Size encode_raw_size(const struct encoder *encoder, Datum value);

/* Appends a JSON string, with quotes, for a string in the server's encoding. */
extern void encode_text(const struct encode_settings *settings, StringInfo out, const char *text,
                        int len);

/* Appends the contents of a JSON string, without quotes. */
extern void encode_text_part(const struct encode_settings *settings, StringInfo out,
                             const char *text, int len);

/* Like encode_text, for a UTF-8 string. */
extern void encode_utf8_text(const struct encode_settings *settings, StringInfo out,
                             const char *utf8, int len);

/* Returns `"name":`, allocated in the current context. */
extern char *encode_name(const struct encode_settings *settings, const char *name, int *ret_len);

/* Converts from the server's encoding to valid UTF-8; may return `text` itself. */
extern char *encode_to_utf8(char *text, int len, int *ret_len);

/* Appends the 36 characters of a UUID, without quotes. */
extern void encode_put_uuid(StringInfo out, const pg_uuid_t *id);

/*
 * Returns the value as a target: its output in UTF-8, without quotes. The result is not
 * zero-terminated and may point into the value. The output of nested values ends after 64 kB.
 */
extern char *encode_plain(struct encoder *encoder, Datum value, int *ret_len);

/*
 * Returns the output of the value. That of a nested type is limited: such a function keeps
 * all parts of a value in memory, and prepares them for each place where they occur.
 */
extern char *encode_print(struct encoder *encoder, Datum value);
/* False for a function that could not be loaded: calling it raises the error. */
extern bool encode_is_loaded(const FmgrInfo *output);

/*
 * Runs work(arg), which outputs values of the encoder. Returns false after an error, with its
 * message in *ret_fault.
 */
extern bool encode_try(const struct encoder *encoder, void (*work)(void *arg), void *arg,
                       char **ret_fault);
/* Writes the value. After an error it writes null, sets `fault`, and returns false. */
extern bool encode_guarded(struct encoder *encoder, StringInfo out, Datum value);

extern void encode_array(struct encoder *encoder, StringInfo out, Datum value);
extern void encode_composite(struct encoder *encoder, StringInfo out, Datum value);
extern void encode_multirange(struct encoder *encoder, StringInfo out, Datum value);
extern void encode_json(struct encoder *encoder, StringInfo out, Datum value);
extern void encode_jsonb(struct encoder *encoder, StringInfo out, Datum value);

/*
 * Writes a time as in metadata, with six digits and Z. `out` has room for 40 bytes. Returns the
 * end.
 */
extern char *encode_instant(char *out, TimestampTz value);
/* Limits the time to the years 1970 to 9999. */
extern TimestampTz encode_clamp_time(TimestampTz time);

/* Appends the fields of the envelope from `first` to `last`. */
extern void encode_envelope(const struct encode_settings *settings, StringInfo out,
                            const struct envelope *envelope, enum envelope_field first,
                            enum envelope_field last);

/* Reads targets, in UTF-8, from an array of type text. They may point into the array. */
extern void encode_read_targets(struct target_list *list, ArrayType *array);

/*
 * Appends the targets as a JSON array of strings. With `for_recipients`, a list of more than
 * LIMIT_TARGETS_SENT is replaced by an empty array and the number of targets.
 */
extern void encode_targets(const struct encode_settings *settings, StringInfo out,
                           const struct target_list *targets, bool for_recipients);

/*
 * Sets these settings to constants: the output must not depend on the session or the database. With
 * GUC_ACTION_SAVE the caller has called NewGUCNestLevel(), and AtEOXact_GUC() restores them.
 */
extern void output_settings_fix(GucAction action);

/* Frees a detoasted value, unless it is the value itself. */
static inline void
encode_free_copy(void *detoasted, Datum value)
{
    if (detoasted != DatumGetPointer(value))
        pfree(detoasted);
}

static inline char *
encode_reserve(StringInfo out, int bytes)
{
    if (out->maxlen - out->len <= bytes)
        enlargeStringInfo(out, bytes);
    return out->data + out->len;
}

static inline void
encode_raw(StringInfo out, const char *bytes, int len)
{
    memcpy(encode_reserve(out, len), bytes, len);
    out->len += len;
}

#define encode_literal(out, text) encode_raw(out, "" text, sizeof(text) - 1)

#endif
