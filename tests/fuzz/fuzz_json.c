/* fuzz_json.c: checks that the decoder writes valid JSON with the same meaning for any input. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "decoder/encode/json.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/strict_json.h"

struct text {
    char *at; /* exactly the size that the writer may request: ASan reports one byte more */
    size_t len;
};

static void
demand(bool condition)
{
    if (!condition)
        __builtin_trap();
}

static struct text
text_new(size_t room)
{
    struct text text = {malloc(room + (room == 0)), 0};

    demand(text.at != NULL);
    return text;
}

static bool
is_strict(struct text text, unsigned flags)
{
    size_t at;

    return strict_json_check(text.at, text.len, flags, &at) == NULL;
}

static bool
same(struct text a, struct text b)
{
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

static bool
is_ascii(struct text text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] >= 0x80)
            return false;
    return true;
}

static struct text
escaped(struct text input, bool ascii)
{
    struct text out = text_new(JSON_ESCAPE_GROWTH * input.len);

    out.len = (size_t)(json_escape(out.at, input.at, input.len, ascii) - out.at);
    return out;
}

static struct text
unescaped(struct text input)
{
    struct text out = text_new(input.len);

    out.len = (size_t)(strict_json_unescape(out.at, input.at, input.len) - out.at);
    return out;
}

static void
demand_string(struct text inside)
{
    struct text quoted = text_new(inside.len + 2);

    quoted.at[0] = '"';
    memcpy(quoted.at + 1, inside.at, inside.len);
    quoted.at[inside.len + 1] = '"';
    quoted.len = inside.len + 2;
    demand(is_strict(quoted, 0));
    free(quoted.at);
}

/* Both forms decode to the input, except for bytes that are not UTF-8. */
static void
check_escape(struct text input)
{
    struct text wide = escaped(input, false);
    struct text narrow = escaped(input, true);
    struct text meant = unescaped(wide);
    struct text also = unescaped(narrow);
    struct text again = escaped(meant, false);

    demand_string(wide);
    demand_string(narrow);
    demand(is_ascii(narrow));
    demand(same(meant, also));
    demand(same(again, wide));
    demand(same(meant, input) || memmem(meant.at, meant.len, "\xEF\xBF\xBD", 3) != NULL);
    free(wide.at);
    free(narrow.at);
    free(meant.at);
    free(also.at);
    free(again.at);
}

static struct text
compacted(struct text input, bool ascii)
{
    struct text out = text_new(JSON_ESCAPE_GROWTH * input.len);

    out.len = (size_t)(json_compact(out.at, input.at, input.len, ascii) - out.at);
    return out;
}

/* The output has the announced size, and removing the white space restores the input. */
static void
check_pretty(struct text input, bool valid)
{
    struct text pretty = text_new(json_pretty_len(input.at, input.len));
    struct text back;

    pretty.len = (size_t)(json_pretty(pretty.at, input.at, input.len) - pretty.at);
    demand(pretty.len == json_pretty_len(input.at, input.len));
    if (valid) {
        demand(is_strict(pretty, STRICT_BLANKS));
        back = compacted(pretty, false);
        demand(same(back, input));
        free(back.at);
    }
    free(pretty.at);
}

static void
check_compact(struct text input)
{
    bool valid = is_strict(input, STRICT_BLANKS);
    struct text small = compacted(input, false);
    struct text narrow = compacted(input, true);

    if (valid) {
        demand(is_strict(small, 0));
        demand(is_strict(narrow, 0) && is_ascii(narrow));
        demand(!is_ascii(input) || same(small, narrow));
    }
    /* The size of indented output grows with the square of its depth. */
    if (input.len <= 2000)
        check_pretty(small, valid);
    free(small.at);
    free(narrow.at);
}

static void
check_base64(struct text input)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct text out = text_new(4 * ((input.len + 2) / 3));
    char *end = json_base64(out.at, (const unsigned char *)input.at, input.len);

    out.len = (size_t)(end - out.at);
    demand(out.len == 4 * ((input.len + 2) / 3));
    for (size_t i = 0; i < input.len; i++) {
        size_t bit = i * 8;
        const char *high = strchr(letters, out.at[bit / 6]);
        const char *low = strchr(letters, out.at[bit / 6 + 1]);
        unsigned both;

        demand(high != NULL && low != NULL);
        both = (unsigned)(high - letters) << 6 | (unsigned)(low - letters);
        demand((both >> (4 - bit % 6) & 0xFF) == (unsigned char)input.at[i]);
    }
    for (size_t i = 0; i < (3 - input.len % 3) % 3; i++)
        demand(out.at[out.len - 1 - i] == '=');
    free(out.at);
}

/* JSON that is written in chunks equals JSON that is written in one piece. */
static void
check_cut(struct text input, size_t chunk)
{
    struct text whole = escaped(input, false);
    struct text pieces = text_new(JSON_ESCAPE_GROWTH * input.len);
    struct text rest = input;

    while (rest.len > 0) {
        size_t cut = json_cut(rest.at, rest.len, chunk);

        demand(cut > 0 && cut <= rest.len);
        pieces.len = (size_t)(json_escape(pieces.at + pieces.len, rest.at, cut, false) - pieces.at);
        rest.at += cut;
        rest.len -= cut;
    }
    demand(same(pieces, whole) || memmem(whole.at, whole.len, "\xEF\xBF\xBD", 3) != NULL);
    free(whole.at);
    free(pieces.at);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text input = text_new(size);

    if (size > 0)
        memcpy(input.at, data, size);
    input.len = size;
    check_escape(input);
    check_compact(input);
    check_base64(input);
    for (size_t chunk = 4; chunk < 20; chunk++)
        check_cut(input, chunk);
    free(input.at);
    return 0;
}
