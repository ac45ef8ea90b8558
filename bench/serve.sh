#!/usr/bin/env bash
# GET of one JWKS, over connections that are kept and, as relying parties ask, over a new TLS connection each time:
# `chancery issuer` against nginx, which serves the same bytes as a file. Both run at once and are asked in turns by wrk,
# which shares the machine's cores with them; ratios of the medians are printed, and the processor time that one
# request costs the server. Nothing is asserted.
#
# CHANCERY_BIN   the binary (default: dist profile of this checkout)
# ROUNDS         turns of each server and mode (default 7)
# SECONDS_EACH   length of a turn (default 3)
# CONNECTIONS    open at a time (default 64)
set -euo pipefail
cd "$(dirname "$0")/.."

target="$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')"
chancery="${CHANCERY_BIN:-$target/dist/chancery}"
rounds="${ROUNDS:-7}" seconds="${SECONDS_EACH:-3}" connections="${CONNECTIONS:-64}"
host=id.bench.test path=openid/v1/jwks

missing=()
for tool in nginx:nginx-light wrk:wrk openssl:openssl curl:curl; do
    PATH="$PATH:/usr/sbin" command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
if ((${#missing[@]})); then
    echo "installing ${missing[*]}" >&2
    started="$(pgrep -x nginx | sort || true)"
    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
    # Debian starts its own nginx when it is installed; it would take processor time here.
    if [[ -z $started ]] && pgrep -x nginx >/dev/null; then service nginx stop >/dev/null 2>&1 || true; fi
fi
PATH="$PATH:/usr/sbin"

scratch="$(mktemp -d)"
processes=()
clean_up() {
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$scratch"
}
trap clean_up EXIT

# A port of the loopback that nobody listens on now.
free_port() {
    local port
    while port=$((20000 + RANDOM % 12000)); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
}
plain_port=$(free_port) tls_port=$(free_port) nginx_plain_port=$(free_port) nginx_tls_port=$(free_port)

openssl genrsa 2048 2>/dev/null | openssl rsa -pubout -out "$scratch/sa.pub" 2>/dev/null
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$host" \
    -addext "subjectAltName=DNS:$host" -keyout "$scratch/tls.key" -out "$scratch/tls.crt" 2>/dev/null

cat >"$scratch/chancery.yaml" <<YAML
issuers:
  - url: https://$host
    sources:
      - files: { paths: [$scratch/sa.pub] }
    verify: { enabled: false }
leaderElection: { enabled: false }
serve:
  - listen: 127.0.0.1:$plain_port
  - listen: 127.0.0.1:$tls_port
    tls: { certificate: $scratch/tls.crt, privateKey: $scratch/tls.key }
YAML
"$chancery" issuer --config "$scratch/chancery.yaml" 2>"$scratch/chancery.log" &
chancery_process=$!
processes+=("$chancery_process")

mkdir -p "$scratch/root/$(dirname "$path")"
for _ in $(seq 100); do
    curl -sf -H "Host: $host" "http://127.0.0.1:$plain_port/$path" -o "$scratch/root/$path" && break
    kill -0 "$chancery_process" 2>/dev/null || { cat "$scratch/chancery.log" >&2; exit 1; }
    sleep 0.1
done
[[ -s $scratch/root/$path ]] || { echo "chancery served nothing:" >&2; cat "$scratch/chancery.log" >&2; exit 1; }

# Set up as one would for small files: no log, file handles cached, connections never closed for their age.
cat >"$scratch/nginx.conf" <<NGINX
worker_processes auto;
daemon off;
pid $scratch/nginx.pid;
error_log $scratch/nginx.log warn;
events { worker_connections 4096; multi_accept on; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_timeout 75s;
    keepalive_requests 1000000000;
    open_file_cache max=100 inactive=10m;
    open_file_cache_valid 10m;
    default_type application/jwk-set+json;
    client_body_temp_path $scratch/body; proxy_temp_path $scratch/proxy; fastcgi_temp_path $scratch/fastcgi;
    uwsgi_temp_path $scratch/uwsgi; scgi_temp_path $scratch/scgi;
    server {
        listen 127.0.0.1:$nginx_plain_port;
        listen 127.0.0.1:$nginx_tls_port ssl http2;
        server_name $host;
        ssl_certificate $scratch/tls.crt;
        ssl_certificate_key $scratch/tls.key;
        ssl_session_cache shared:tls:1m;
        root $scratch/root;
        add_header Cache-Control "public, max-age=600";
    }
}
NGINX
chmod 755 "$scratch"
# nginx opens its built-in log before it reads where ours is.
nginx -c "$scratch/nginx.conf" 2>>"$scratch/nginx.log" &
nginx_process=$!
processes+=("$nginx_process")
for _ in $(seq 100); do
    curl -sf -H "Host: $host" "http://127.0.0.1:$nginx_plain_port/$path" -o "$scratch/from-nginx" && break
    kill -0 "$nginx_process" 2>/dev/null || { cat "$scratch/nginx.log" >&2; exit 1; }
    sleep 0.1
done
cmp "$scratch/from-nginx" "$scratch/root/$path"

# Processor time of a process and its children so far, in clock ticks.
ticks() {
    local sum=0 process
    for process in "$1" $(pgrep -P "$1" || true); do
        sum=$((sum + $(awk '{ print $14 + $15 }' "/proc/$process/stat")))
    done
    echo "$sum"
}
tick_us=$((1000000 / $(getconf CLK_TCK)))

# One turn: NAME MODE URL PROCESS. Appends "requests/s microseconds" to the results of NAME and MODE. wrk resumes no TLS
# session, so that a connection that is closed after its request costs the next one a whole handshake.
turn() {
    local before after report
    local -a headers=(-H "Host: $host")
    if [[ $2 == new ]]; then headers+=(-H "Connection: close"); fi
    before=$(ticks "$4")
    report="$(wrk -t2 -c"$connections" -d"${seconds}s" "${headers[@]}" "$3/$path")"
    after=$(ticks "$4")
    if grep -E 'Non-2xx|Socket errors' <<<"$report" >&2; then
        echo "$1 ($2) did not answer every request with the document" >&2
        exit 1
    fi
    awk -v used=$(((after - before) * tick_us)) \
        '/requests in/ { count = $1 } /Requests\/sec/ { printf "%.0f %.2f\n", $2, used / count }' \
        <<<"$report" >>"$scratch/$1.$2"
}

# The median of column COLUMN of FILE.
median() { cut -d' ' -f"$1" "$2" | sort -n | awk '{ value[NR] = $1 } END { print (NR % 2) ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2 }'; }

echo "$(stat -c %s "$scratch/root/$path") bytes, $connections connections, $rounds turns of $seconds s each, $(nproc) cores for servers and wrk"
for mode in plain tls new; do
    if [[ $mode == plain ]]; then
        ours="http://127.0.0.1:$plain_port" theirs="http://127.0.0.1:$nginx_plain_port"
    else
        ours="https://127.0.0.1:$tls_port" theirs="https://127.0.0.1:$nginx_tls_port"
    fi
    for round in $(seq "$rounds"); do
        # Who goes first changes, so that neither always follows a warm machine.
        if ((round % 2)); then
            turn chancery $mode "$ours" "$chancery_process"
            turn nginx $mode "$theirs" "$nginx_process"
        else
            turn nginx $mode "$theirs" "$nginx_process"
            turn chancery $mode "$ours" "$chancery_process"
        fi
    done
    for column in 1 2; do
        a=$(median $column "$scratch/chancery.$mode") b=$(median $column "$scratch/nginx.$mode")
        unit=$([[ $column == 1 ]] && echo "requests/s" || echo "us of processor time a request")
        [[ $mode == new ]] && unit="${unit/request/new TLS connection}"
        awk -v mode=$mode -v a="$a" -v b="$b" -v unit="$unit" \
            'BEGIN { printf "%-5s  chancery %9s  nginx %9s  ratio %.2f  %s\n", mode, a, b, a / b, unit }'
    done
done
