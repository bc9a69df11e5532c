# SPDX-License-Identifier: Apache-2.0
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git config --global user.name Nobody
git config --global user.email nobody@invalid
git config --global pack.threads 1
git init -q -b main origin
cd origin
for i in 1 2 3 4 5 6 7 8; do
    mkdir -p "d$i"
    for k in $(seq 1 25); do seq "$i" "$k" $((k * 40 + i)) >"d$i/f$k"; done
    git add .
    git commit -q -m "Commit $i"
done
git checkout -q -b side HEAD~3
seq 1 500 >side.txt
git add . && git commit -q -m Side
git checkout -q main && git merge -q -m Merge side
cd ..
git clone -q --no-local origin copy
cd copy
git log --stat --format='%H %s' | md5sum
git diff HEAD~4 --stat | tail -1
git gc -q --aggressive --prune=now
git repack -q -a -d -f
git fsck --strict --no-progress
git grep -c 77 | md5sum
git blame d3/f7 | md5sum
git archive HEAD | tar -t | wc -l
git rev-parse HEAD
