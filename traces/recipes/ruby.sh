# SPDX-License-Identifier: Apache-2.0
. "$FILES/recipe.sh"
cp "$FILES/pages.rb" .
record ruby --disable-gems pages.rb
