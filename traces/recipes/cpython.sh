# SPDX-License-Identifier: Apache-2.0
. "$FILES/recipe.sh"
cp "$FILES/shop.py" .
PYTHONMALLOC=malloc PYTHONHASHSEED=0 record python3 shop.py
