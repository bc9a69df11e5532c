# SPDX-License-Identifier: Apache-2.0
# Starts a server of the compatibility table, loads it, checks its answers and stops it: servers.sh FUNCTION
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true' EXIT
until_ok() {
    for _ in {1..300}; do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done
    echo "never: $*"
    exit 90
}
stopped() { local status=0; wait "$server" || status=$?; server=; echo "server ended with $status"; }

curl_work() {
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
}

memcached_work() {
    memcached -l 127.0.0.1 -p "$PORT" -U 0 -t 4 -m 32 -u nobody 2>server.log &
    server=$!
    until_ok bash -c ": <>/dev/tcp/127.0.0.1/$PORT"
    python3 "$FILES/servers/memcached_load.py" "$PORT"
    kill -TERM "$server"
    stopped
}

nginx_work() {
    mkdir html
    chmod 755 . html
    seq 1 5000 >html/figures
    sed "s/@PORT@/$PORT/" "$FILES/servers/nginx.conf" >nginx.conf
    nginx -p "$PWD" -c nginx.conf 2>/dev/null &
    server=$!
    url=http://127.0.0.1:$PORT
    until_ok curl -sf "$url/figures"
    curl -s "$url/figures" | md5sum
    curl -s --compressed "$url/again/figures" | md5sum
    for i in 1 2 3; do curl -s "$url/sum?a=$i&b=x"; done
    curl -s -o /dev/null -w '%{http_code}\n' "$url/none"
    python3 "$FILES/servers/http_load.py" "$url/figures" 1500
    kill -HUP "$server"
    sleep 0.5
    python3 "$FILES/servers/http_load.py" "$url/again/figures" 500
    kill -QUIT "$server"
    stopped
}

postgres_work() {
    initdb -D db -A trust -U me --no-sync --locale=C -E UTF8 >initdb.log
    postgres -D db -k "$PWD" -c listen_addresses= -c fsync=off >server.log 2>&1 &
    server=$!
    export PGHOST=$PWD PGUSER=me PGDATABASE=postgres
    until_ok pg_isready
    pgbench -i -q -s 2 >pgbench.log 2>&1
    pgbench -n -c 4 -j 2 -t 300 | grep 'transactions actually'
    pgbench -n -S -M prepared -c 4 -j 2 -t 1000 | grep 'transactions actually'
    psql -Atq <<'END'
CREATE TABLE t AS SELECT i, md5(i::text) AS h, jsonb_build_object('a', i, 'b', array[i, i * 2]) AS j
  FROM generate_series(1, 50000) i;
CREATE INDEX ON t USING gin (j);
SELECT count(*), md5(string_agg(h, ',' ORDER BY h DESC)), sum((j->>'a')::int) FROM t;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT substr(h, 1, 1) AS p, count(*) FROM t GROUP BY p ORDER BY p LIMIT 3;
SELECT count(*) FROM t WHERE j @> '{"a": 77}';
SELECT sum(abalance) = (SELECT sum(bbalance) FROM pgbench_branches) FROM pgbench_accounts;
SELECT 1 / 0;
END
    pg_dump -t t | grep -v restrict | md5sum
    pg_ctl -D db -s -m fast stop
    stopped
}

redis_work() {
    redis-server --port 0 --unixsocket "$PWD/s" --save '' --dir . --io-threads 2 \
        --io-threads-do-reads yes >server.log &
    server=$!
    cli() { redis-cli -s s "$@"; }
    until_ok cli ping
    cli eval "for i = 1, 100000 do redis.call('set', 'k' .. i, string.rep('v', i % 100)) end
        return redis.call('dbsize')" 0
    cli eval "for i = 1, 20000 do
        redis.call('zadd', 'z', i * 7919 % 1013, 'm' .. i)
        redis.call('hset', 'h' .. i % 50, i, i)
    end return 1" 0
    cli debug digest-value z h7
    cli bgsave
    until_ok grep -q 'Background saving terminated with success' server.log
    cli eval "for i = 1, 50000 do redis.call('del', 'k' .. i) end return redis.call('dbsize')" 0
    redis-benchmark -s s -n 20000 -r 1000 -c 20 -q -t set,get,lpush,lpop,hset,zadd >/dev/null
    redis-check-rdb dump.rdb | grep -c 'RDB looks OK'
    cli shutdown nosave
    stopped
}

sshd_work() {
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
}

tmux_work() {
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
}

"$@"
