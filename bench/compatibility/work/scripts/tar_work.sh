# SPDX-License-Identifier: Apache-2.0
tar -C /usr -cf - include/linux include/c++ | xz -1 -T2 >a.tar.xz
xz -dc a.tar.xz | tar -tvf - | md5sum
mkdir out
tar -C out -xJf a.tar.xz
find out -type f | wc -l
