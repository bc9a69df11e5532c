. "$FILES/recipe.sh"
cp "$FILES/pages.rb" .
record ruby --disable-gems pages.rb
