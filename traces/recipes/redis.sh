# SPDX-License-Identifier: Apache-2.0
# A cache that fills, is thinned out, sleeps, and is used again, with two threads for input and output.
. "$FILES/recipe.sh"
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
