# SPDX-License-Identifier: Apache-2.0
# Packs the whole history of this tree anew, looking for deltas in two threads.
. "$FILES/recipe.sh"
git clone -q --bare "$SOURCE" tree.git
cd tree.git
git rev-list --objects --all >../objects
record git pack-objects --no-reuse-delta --threads=2 --window=20 --depth=50 -q ../pack <../objects
