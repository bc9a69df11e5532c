# SPDX-License-Identifier: Apache-2.0
. "$FILES/servers/server.sh"
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
