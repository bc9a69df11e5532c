# SPDX-License-Identifier: Apache-2.0
. "$FILES/recipe.sh"
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
