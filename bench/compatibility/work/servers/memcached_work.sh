# SPDX-License-Identifier: Apache-2.0
. "$FILES/servers/server.sh"
memcached -l 127.0.0.1 -p "$PORT" -U 0 -t 4 -m 32 -u nobody 2>server.log &
server=$!
until_ok bash -c ": <>/dev/tcp/127.0.0.1/$PORT"
python3 "$FILES/servers/memcached_load.py" "$PORT"
kill -TERM "$server"
stopped
