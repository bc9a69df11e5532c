# SPDX-License-Identifier: Apache-2.0
. "$FILES/servers/server.sh"
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
