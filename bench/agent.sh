#!/usr/bin/env bash
# Memory of an agent that nobody has asked yet, five seconds after its start.
set -euo pipefail
folder="$(mktemp -d)"
trap 'kill "$agent" 2>/dev/null || true; rm -rf "$folder"' EXIT
"$CHANCERY_BIN" exchange serve --to aws --role-arn arn:aws:iam::123456789012:role/app --region eu-central-1 \
  --source "file:$folder/token" --token-file "$folder/secret" --listen 127.0.0.1:0 >/dev/null 2>&1 &
agent=$!
sleep 5
grep -E 'VmRSS|RssAnon|Threads' "/proc/$agent/status"
