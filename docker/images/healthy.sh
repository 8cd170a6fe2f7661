#!/bin/bash
# healthy.sh HOST PORT PATH: succeeds if an HTTP GET returns status 200.
set -euo pipefail
exec 3<>"/dev/tcp/$1/$2"
printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$3" "$1:$2" >&3
read -r -t 5 status_line <&3
timeout 5 cat <&3 >/dev/null
[[ $status_line == HTTP/1.?" 200"* ]]
