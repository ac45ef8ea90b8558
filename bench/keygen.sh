#!/usr/bin/env bash
# An RSA-2048 key from nothing to a file: `chancery keygen new` against `openssl genrsa 2048`, in turns.
# The time of an RSA key is a matter of luck with primes, so medians of many are compared. Nothing is asserted.
#
# CHANCERY_BIN   the binary (default: dist profile of this checkout)
# KEYS           keys of each (default 15)
set -euo pipefail
cd "$(dirname "$0")/.."

target="$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')"
chancery="${CHANCERY_BIN:-$target/dist/chancery}"
keys="${KEYS:-15}"

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# Runs a command and prints the milliseconds from its start to its end, and those of processor time.
measure() {
    local TIMEFORMAT='%R %U %S'
    { time "$@" >/dev/null 2>"$scratch/said" || { cat "$scratch/said" >&2; exit 1; }; } 2>&1 |
        awk '{ printf "%d %d\n", $1 * 1000 + 0.5, ($2 + $3) * 1000 + 0.5 }'
}

# The median of column COLUMN of FILE.
median() { cut -d' ' -f"$1" "$2" | sort -n | awk '{ value[NR] = $1 } END { print (NR % 2) ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2 }'; }

for key in $(seq "$keys"); do
    measure "$chancery" keygen new --private "$scratch/$key.key" --public "$scratch/$key.pub" >>"$scratch/chancery"
    measure openssl genrsa -out "$scratch/$key.openssl" 2048 >>"$scratch/openssl"
done
column=1
for unit in "ms from start to end" "ms of processor time"; do
    a=$(median $column "$scratch/chancery") b=$(median $column "$scratch/openssl")
    awk -v a="$a" -v b="$b" -v unit="$unit" -v keys="$keys" \
        'BEGIN { printf "chancery %4d  openssl %4d  ratio %.2f  %s, median of %d keys each\n", a, b, b ? a / b : 0, unit, keys }'
    column=$((column + 1))
done
