# SPDX-License-Identifier: Apache-2.0
# A shop's database from statements as an application would send them, each parsed anew; the client thinks in between.
. "$FILES/recipe.sh"
python3 "$FILES/make_shop_sql.py" >shop.sql
mkfifo statements
{ sed '/^-- pause$/,$d' shop.sql; sleep 4; sed '1,/^-- pause$/d' shop.sql; sleep 2; } >statements &
record sqlite3 shop.db <statements >answers
wait
