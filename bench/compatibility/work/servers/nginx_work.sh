# SPDX-License-Identifier: Apache-2.0
. "$FILES/servers/server.sh"
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
