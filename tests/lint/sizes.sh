#!/usr/bin/env bash
# sizes.sh: limits C files to 900 lines, C functions to 80 lines, and C lines to 100 columns.
set -euo pipefail
cd "$(dirname "$0")/../.."

most_file_lines=900
most_function_lines=80
most_columns=100 # clang-format limits only code, not comments and strings

mapfile -t files < <(find relay decoder tests/unit -name '*.[ch]' | sort)

bad=0
while read -r lines file; do
    if [ "$file" != total ] && [ "$lines" -gt "$most_file_lines" ]; then
        echo "$file: $lines lines, at most $most_file_lines"
        bad=1
    fi
done < <(wc -l "${files[@]}")

mapfile -t lines_of < <(find relay decoder tests -name '*.[ch]' | sort)
awk -v most="$most_columns" '
    length($0) > most {
        printf "%s:%d: %d columns, at most %d\n", FILENAME, FNR, length($0), most
        bad = 1
    }
    END { exit bad }' "${lines_of[@]}" || bad=1

ctags --languages=C --kinds-C=f --fields=+ne -f - "${files[@]}" |
    awk -F'\t' -v most="$most_function_lines" '
        {
            first = last = 0
            for (i = 4; i <= NF; i++) {
                if ($i ~ /^line:/) first = substr($i, 6)
                if ($i ~ /^end:/) last = substr($i, 5)
            }
            if (last - first + 1 > most) {
                printf "%s:%d: %s has %d lines, at most %d\n", $2, first, $1, last - first + 1, most
                bad = 1
            }
        }
        END { exit bad }' || bad=1
exit "$bad"
