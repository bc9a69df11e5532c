# SPDX-License-Identifier: Apache-2.0
# The whole history of this tree as patches, newest first, with renames and copies found.
. "$FILES/recipe.sh"
git clone -q --bare "$SOURCE" tree.git
cd tree.git
record git log -p --stat -M -C --no-color --topo-order >../patches
