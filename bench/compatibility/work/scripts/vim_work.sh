# SPDX-License-Identifier: Apache-2.0
vim -es -u NONE -S "$FILES/sources/ex_script.vim" || echo "status $?"
md5sum out.txt
cat count.txt
