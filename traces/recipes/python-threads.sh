# SPDX-License-Identifier: Apache-2.0
. "$FILES/recipe.sh"
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
