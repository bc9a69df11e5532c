# SPDX-License-Identifier: Apache-2.0
# One session's process of a postgres server: tables, joins, sorts, functions, JSON; the client thinks in between. Not as root, which it refuses to run as.
. "$FILES/recipe.sh"
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
