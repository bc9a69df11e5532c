"""The servers of the compatibility table: each script starts one, loads it, checks it and stops it."""

from __future__ import annotations

from compatibility_programs import Program

# What every script begins with. The server's own status is part of the output.
PREAMBLE = r"""
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true' EXIT
until_ok() { for _ in $(seq 300); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done; echo "never: $*"; exit 90; }
stopped() { local status=0; wait "$server" || status=$?; server=; echo "server ended with $status"; }
"""

REDIS = r"""
redis-server --port 0 --unixsocket "$PWD/s" --save '' --dir . --io-threads 2 --io-threads-do-reads yes >server.log &
server=$!
cli() { redis-cli -s s "$@"; }
until_ok cli ping
cli eval "for i = 1, 100000 do redis.call('set', 'k' .. i, string.rep('v', i % 100)) end return redis.call('dbsize')" 0
cli eval "for i = 1, 20000 do redis.call('zadd', 'z', i * 7919 % 1013, 'm' .. i); redis.call('hset', 'h' .. i % 50, i, i) end return 1" 0
cli debug digest-value z h7
cli bgsave
until_ok grep -q 'Background saving terminated with success' server.log
cli eval "for i = 1, 50000 do redis.call('del', 'k' .. i) end return redis.call('dbsize')" 0
redis-benchmark -s s -n 20000 -r 1000 -c 20 -q -t set,get,lpush,lpop,hset,zadd >/dev/null
redis-check-rdb dump.rdb | grep -c 'RDB looks OK'
cli shutdown nosave
stopped
"""

MEMCACHED_PY = r"""
import hashlib, socket, sys, threading, time

def ask(connection, text, end):
    connection.sendall(text)
    answer = b""
    while not answer.endswith(end):
        answer += connection.recv(65536)
    return answer

def load(seed, out):
    digest = hashlib.sha256()
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        for i in range(4000):
            value = b"v" * (i * seed % 3000)
            key = b"k%d-%d" % (seed, i % 700)
            ask(connection, b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), b"STORED\r\n")
            digest.update(ask(connection, b"get %s\r\n" % key, b"END\r\n"))
    out[seed] = digest.hexdigest()

out = {}
threads = [threading.Thread(target=load, args=(s, out)) for s in (3, 5, 7, 11)]
for t in threads: t.start()
for t in threads: t.join()
print(sorted(out.items()))
"""
MEMCACHED = r"""
memcached -l 127.0.0.1 -p "$PORT" -U 0 -t 4 -m 32 -u nobody 2>server.log &
server=$!
until_ok bash -c ": <>/dev/tcp/127.0.0.1/$PORT"
python3 load.py "$PORT"
kill -TERM "$server"
stopped
"""

NGINX_CONF = r"""
worker_processes 2;
daemon off;
pid nginx.pid;
error_log error.log;
events { worker_connections 128; }
http {
    access_log access.log;
    gzip on; gzip_min_length 100; gzip_types *;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fast; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {
        listen 127.0.0.1:@PORT@;
        location / { root html; }
        location /sum { return 200 "$arg_a-$arg_b\n"; }
        location /again { proxy_pass http://127.0.0.1:@PORT@/; }
    }
}
"""
NGINX = r"""
mkdir html
chmod 755 . html
seq 1 5000 >html/figures
sed -i "s/@PORT@/$PORT/" nginx.conf
nginx -p "$PWD" -c nginx.conf 2>/dev/null &
server=$!
url=http://127.0.0.1:$PORT
until_ok curl -sf "$url/figures"
curl -s "$url/figures" | md5sum
curl -s --compressed "$url/again/figures" | md5sum
for i in 1 2 3; do curl -s "$url/sum?a=$i&b=x"; done
curl -s -o /dev/null -w '%{http_code}\n' "$url/none"
python3 load.py "$url/figures" 1500
kill -HUP "$server"
sleep 0.5
python3 load.py "$url/again/figures" 500
kill -QUIT "$server"
stopped
"""
LOAD_PY = r"""
import concurrent.futures, hashlib, sys, urllib.request
def fetch(_):
    with urllib.request.urlopen(sys.argv[1]) as answer:
        return hashlib.sha256(answer.read()).hexdigest()
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(set(pool.map(fetch, range(int(sys.argv[2])))))
"""

POSTGRES = r"""
initdb -D db -A trust -U me --no-sync --locale=C -E UTF8 >initdb.log
postgres -D db -k "$PWD" -c listen_addresses= -c fsync=off >server.log 2>&1 &
server=$!
export PGHOST=$PWD PGUSER=me PGDATABASE=postgres
until_ok pg_isready
pgbench -i -q -s 2 >pgbench.log 2>&1
pgbench -n -c 4 -j 2 -t 300 | grep 'transactions actually'
pgbench -n -S -M prepared -c 4 -j 2 -t 1000 | grep 'transactions actually'
psql -Atq <<'END'
CREATE TABLE t AS SELECT i, md5(i::text) AS h, jsonb_build_object('a', i, 'b', array[i, i * 2]) AS j FROM generate_series(1, 50000) i;
CREATE INDEX ON t USING gin (j);
SELECT count(*), md5(string_agg(h, ',' ORDER BY h DESC)), sum((j->>'a')::int) FROM t;
SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT substr(h, 1, 1) AS p, count(*) FROM t GROUP BY p ORDER BY p LIMIT 3;
SELECT count(*) FROM t WHERE j @> '{"a": 77}';
SELECT sum(abalance) = (SELECT sum(bbalance) FROM pgbench_branches) FROM pgbench_accounts;
SELECT 1 / 0;
END
pg_dump -t t | grep -v restrict | md5sum
pg_ctl -D db -s -m fast stop
stopped
"""

TMUX = r"""
mux() { tmux -S socket -f /dev/null "$@"; }
mux new-session -d -x 100 -y 30 'env PS1=ready\$ bash --norc --noprofile'
server=$(mux display-message -p '#{pid}')
mux send-keys 'seq 1 20000; echo done-$((6 * 7))' Enter
on_screen() { mux capture-pane -p | grep -q "$1"; }
until_ok on_screen done-42
mux capture-pane -p | grep -v '^$' | tail -4
mux split-window -h 'bash --norc --noprofile -c "for i in {1..3000}; do echo line $i; done; sleep 100"'
mux set-option -g history-limit 5000
mux new-window -n second 'cat'
mux send-keys 'typed text' Enter
until_ok on_screen typed
mux list-windows -F '#{window_index} #{window_panes}'
mux kill-server
gone() { ! kill -0 "$server"; }
until_ok gone
server=
"""

CURL = r"""
cp "$INPUT/figures" figures
python3 -u -m http.server --bind 127.0.0.1 "$PORT" >server.log 2>&1 &
server=$!
until_ok curl -sf "http://127.0.0.1:$PORT/"
for i in 1 2 3 4 5; do curl -sS "http://127.0.0.1:$PORT/figures" | md5sum; done
curl -sS --parallel -o '#1.out' "http://127.0.0.1:$PORT/figures?[1-40]" 2>/dev/null
cat *.out | md5sum
curl -sS -I "http://127.0.0.1:$PORT/none" | head -n 1
curl -sS "http://127.0.0.1:1/" 2>/dev/null || echo "refused: $?"
kill -TERM "$server"
stopped
"""

SSHD = r"""
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f user
cp user.pub keys
chmod 700 .
cat >config <<END
Port $PORT
ListenAddress 127.0.0.1
HostKey $PWD/host
AuthorizedKeysFile $PWD/keys
StrictModes no
UsePAM no
PidFile none
SetEnv SHLVL=9
Subsystem sftp internal-sftp
END
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
"$(command -v sshd)" -D -e -f config >server.log 2>&1 &
server=$!
until_ok bash -c ": <>/dev/tcp/127.0.0.1/$PORT"
options=(-F none -i user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR)
for i in 1 2 3; do ssh "${options[@]}" -p "$PORT" 127.0.0.1 "echo session $i; exit $i" || echo "status $?"; done
ssh "${options[@]}" -p "$PORT" 127.0.0.1 'cat | md5sum' <"$INPUT/figures"
printf 'get %s copy\n' "$INPUT/figures" | sftp -q "${options[@]}" -P "$PORT" 127.0.0.1 >/dev/null
md5sum copy
kill -TERM "$server"
stopped
"""

FIGURES = "seq 1 3 900000 >figures\n"


def script(text: str) -> dict[str, str]:
    return {"run.sh": PREAMBLE + text}


SERVERS = [
    Program("redis", "server with io threads, bgsave's fork, redis-benchmark, shutdown",
            ("redis-server", "redis-cli", "redis-benchmark"), ("redis-server", "redis-tools"),
            ("redis-cli", "--version"), script(REDIS)),
    Program("memcached", "4 threads, sets and gets from 4 clients, SIGTERM",
            ("memcached", "python3"), ("memcached",), ("memcached", "--version"),
            script(MEMCACHED) | {"load.py": MEMCACHED_PY}),
    Program("nginx", "master and 2 workers, gzip, proxy, reload, quit",
            ("nginx", "curl", "python3"), ("nginx-light", "curl"), ("nginx", "-v"),
            script(NGINX) | {"nginx.conf": NGINX_CONF, "load.py": LOAD_PY}),
    Program("postgres", "initdb, pgbench, parallel queries, pg_dump, fast stop",
            ("postgres", "initdb", "pgbench", "psql"), ("postgresql",), ("postgres", "--version"),
            script(POSTGRES), unprivileged=True),
    Program("tmux", "a detached session, keys, panes, kill-server", ("tmux",), ("tmux",),
            ("tmux", "-V"), script(TMUX)),
    Program("curl", "fetches from python3 -m http.server", ("curl", "python3"), ("curl",),
            ("curl", "--version"), script(CURL), prepare=FIGURES),
    Program("sshd", "logins by key, sftp, privilege separation", ("sshd", "ssh", "sftp"),
            ("openssh-server", "openssh-client"), ("ssh", "-V"), script(SSHD), prepare=FIGURES),
]
