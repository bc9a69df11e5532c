# SPDX-License-Identifier: Apache-2.0
# The recipes of the traces; record_traces.py runs `bash -eu recipes.sh NAME` in an empty folder, with
# $FILES (this folder's copy), $BIN (heaptape and its shims), $LOGS and $PORT (a free one) set.
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true' EXIT

# Runs a program and records it; everything else in a recipe goes unrecorded.
record() { "$BIN/heaptape" record -q -o "$LOGS" -- "$@"; }

until_ok() {
    for _ in {1..300}; do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done
    echo "never: $*" >&2
    exit 90
}

# Waits for the server, which somebody has told to end.
stopped() { wait "$server"; server=; }

# The C compiler proper on one file of this tree, preprocessed beforehand, as a release with debug information is built.
trace_cc1() {
    find "$SOURCE" -path "$SOURCE/.*" -prune -o -path "$SOURCE/build*" -prune -o -name "*.h" -printf "-I%h\n" | sort -u >includes
    gcc -E -P -O2 -D_GNU_SOURCE @includes "$SOURCE/inspect/trace_stats.c" -o trace_stats.i
    record "$(gcc -print-prog-name=cc1)" -fpreprocessed -quiet -O2 -g trace_stats.i -o trace_stats.s
}

trace_cpython() {
    cp "$FILES/shop.py" .
    PYTHONMALLOC=malloc PYTHONHASHSEED=0 record python3 shop.py
}

# The whole history of this tree as patches, newest first, with renames and copies found.
trace_git-log() {
    git clone -q --bare "$SOURCE" tree.git
    cd tree.git
    record git log -p --stat -M -C --no-color --topo-order >../patches
}

# Packs the whole history of this tree anew, looking for deltas in two threads.
trace_git-pack() {
    git clone -q --bare "$SOURCE" tree.git
    cd tree.git
    git rev-list --objects --all >../objects
    record git pack-objects --no-reuse-delta --threads=2 --window=20 --depth=50 -q ../pack <../objects
}

trace_node() {
    cp "$FILES/document_server.js" .
    record node document_server.js "$PORT" &
    server=$!
    until_ok python3 "$FILES/web_load.py" "$PORT" 1 1
    python3 "$FILES/web_load.py" "$PORT" 6 600
    sleep 5
    python3 "$FILES/web_load.py" "$PORT" 3 400
    sleep 3
    python3 "$FILES/web_load.py" "$PORT" quit
    stopped
}

# A web server's log, read into hashes and told as a report.
trace_perl() {
    cp "$FILES/log_report.pl" .
    perl "$FILES/make_access_log.pl" 9500 >access.log
    PERL_HASH_SEED=0 record perl log_report.pl access.log
}

# One session's process of a postgres server: tables, joins, sorts, functions, JSON; the client thinks in between. Not as root, which it refuses to run as.
trace_postgres() {
    programs=$(pg_config --bindir 2>/dev/null || ls -d /usr/lib/postgresql/*/bin | tail -n 1)
    PATH=$programs:$PATH
    initdb -D db -A trust -U me --no-sync --locale=C -E UTF8 >initdb.log
    record postgres -D db -k "$PWD" -c listen_addresses= -c fsync=off -c work_mem=8MB -c max_parallel_workers_per_gather=0 >server.log 2>&1 &
    server=$!
    export PGHOST=$PWD PGUSER=me PGDATABASE=postgres
    until_ok pg_isready
    { python3 "$FILES/make_session_sql.py" 1; sleep 5; python3 "$FILES/make_session_sql.py" 2; sleep 3; } | psql -Atq -v ON_ERROR_STOP=1 >answers
    pg_ctl -D db -s -m fast stop
    stopped
}

trace_python-threads() {
    cp "$FILES/threaded_server.py" .
    PYTHONMALLOC=malloc PYTHONHASHSEED=0 record python3 threaded_server.py "$PORT" &
    server=$!
    until_ok python3 "$FILES/web_load.py" "$PORT" 1 1
    python3 "$FILES/web_load.py" "$PORT" 6 90
    sleep 6
    python3 "$FILES/web_load.py" "$PORT" 3 60
    sleep 4
    python3 "$FILES/web_load.py" "$PORT" quit
    stopped
}

# A cache that fills, is thinned out, sleeps, and is used again, with two threads for input and output.
trace_redis() {
    record redis-server --port 0 --unixsocket s --save '' --dir . --hz 10 --io-threads 2 --io-threads-do-reads yes --daemonize no >server.log &
    server=$!
    cli() { redis-cli -s s "$@" >>client.log; }
    bench() { redis-benchmark -s s -q "$@" >>client.log; }
    until_ok redis-cli -s s ping
    bench -n 8000 -r 8000 -c 10 -P 4 -d 120 -t set,get
    bench -n 3500 -r 5000 -c 10 -t lpush,lpop,sadd,zadd,hset
    cli eval "for i = 1, 4800 do
        redis.call('set', 'session:' .. i, string.rep('s', 20 + i * 7919 % 900))
        redis.call('expire', 'session:' .. i, 3 + i % 4)
        redis.call('hset', 'user:' .. i % 700, 'field' .. i % 23, string.rep('v', i % 130))
        redis.call('zadd', 'board:' .. i % 9, i * 31 % 1009, 'player' .. i % 2000)
        if i % 3 == 0 then redis.call('append', 'log:' .. i % 40, 'line ' .. i .. ' ' .. string.rep('.', i % 80)) end
    end" 0
    cli eval "for i = 0, 999999 do redis.call('unlink', string.format('key:%012d', i * 2)) if i > 4000 then break end end" 0
    sleep 9
    bench -n 4500 -r 8000 -c 20 -P 2 -d 700 -t set,get
    cli eval "for i = 1, 700, 2 do redis.call('del', 'user:' .. i) end return redis.call('dbsize')" 0
    cli flushall async
    sleep 12
    redis-cli -s s shutdown nosave || true
    stopped
}

trace_ruby() {
    cp "$FILES/pages.rb" .
    record ruby --disable-gems pages.rb
}

# A shop's database from statements as an application would send them, each parsed anew; the client thinks in between.
trace_sqlite3() {
    python3 "$FILES/make_shop_sql.py" >shop.sql
    mkfifo statements
    { sed '/^-- pause$/,$d' shop.sql; sleep 4; sed '1,/^-- pause$/d' shop.sql; sleep 2; } >statements &
    record sqlite3 shop.db <statements >answers
    wait
}

"trace_$1"
