" SPDX-License-Identifier: Apache-2.0
set nocompatible viminfo= nomore
edit $INPUT/figures
syntax on
%s/name\(\d\+\)/N\1!/g
g/^9/move 0
sort n
let counts = {}
for line in getline(1, '$')
  let key = split(line)[1][0:2]
  let counts[key] = get(counts, key, 0) + 1
endfor
call append(0, string(items(counts)))
normal! gg"ayy5"ap
undo
redo
write! out.txt
call writefile([string(line('$'))], 'count.txt')
qall!
