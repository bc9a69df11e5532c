# SPDX-License-Identifier: Apache-2.0
# What programs of the compatibility table do: programs.sh FUNCTION [ARGUMENT...]

bash_work() {
    declare -A count
    words=()
    for i in {1..30000}; do
        word="w$((i * 7919 % 1009))"
        words+=("$word")
        count[$word]=$((${count[$word]:-0} + 1))
    done
    echo "${#words[@]} ${#count[@]} ${words[*]: -3}"
    total=0
    for k in "${!count[@]}"; do total=$((total + count[$k])); done
    echo "$total"
    for i in {1..60}; do text=$(for j in {1..20}; do printf '%s,' "$((i * j))"; done); echo "$text"; done | md5sum
    (cd /; trap 'echo subshell ends' EXIT; words=(); echo "${#words[@]}")
    coproc UPPER { while read -r line; do echo "${line^^}"; done; }
    for w in one two three; do echo "$w" >&"${UPPER[1]}"; read -r up <&"${UPPER[0]}"; echo "$up"; done
    exec {UPPER[1]}>&-
    diff <(seq 1 2000) <(seq 1 2 2000) | wc -l
    wait
    exit 7
}

# Builds heaptape's own sources, which are always there: build_self GENERATOR BUILD-COMMAND...
build_self() {
    generator=$1
    shift
    cmake -S "$SOURCE" -B tree -G "$generator" -DCMAKE_BUILD_TYPE=Release >configured 2>&1
    tail -n 2 configured | head -n 1 | cut -c 1-16
    "$@" heaptape >built 2>&1
    tree/heaptape --version
}

# Compiles by the command given, then runs the program.
compile_and_run() {
    "$@" -o work
    ./work
}

coreutils_work() {
    find /usr/include -name '*.h' -print0 | xargs -0 -n 200 grep -l define | wc -l
    sed -E 's/name([0-9]+)/\1-&/g; /77/d; $!N; P; D' "$INPUT/figures" | md5sum
    cut -d ' ' -f 2 "$INPUT/figures" | sort | uniq -c | sort -rn | head -3
    split -n l/8 "$INPUT/figures" part.
    wc -l part.* | tail -1
    grep -cE '(name[0-9]*7 |99).*[13579]$' "$INPUT/figures"
}

ffmpeg_work() {
    ffmpeg -v error -nostdin -f lavfi -i testsrc2=duration=2:size=320x240:rate=25 \
        -f lavfi -i sine=frequency=440:duration=2 \
        -c:v mpeg4 -q:v 5 -c:a ac3 -fflags +bitexact -flags:v +bitexact -flags:a +bitexact -threads 4 out.mkv
    md5sum out.mkv
    ffmpeg -v error -nostdin -i out.mkv -vf scale=160:120,hflip -f framemd5 -threads 4 - | md5sum
}

git_work() {
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
}

# Builds one Go file without touching the user's caches: go_build FILE CGO_ENABLED
go_build() {
    export GOCACHE="$PWD/cache" GOPATH="$PWD/path" GOTOOLCHAIN=local GOFLAGS=-mod=mod CGO_ENABLED=$2
    printf 'module example\n\ngo 1.22\n' >go.mod
    cp "$1" main.go
    go build -o work .
}

imagemagick_work() {
    convert-im6.q16 -size 600x400 plasma:red-blue -seed 7 -depth 8 in.png 2>/dev/null || true
    convert-im6.q16 -size 700x500 gradient:navy-gold -swirl 120 -blur 0x3 -resize 60% -rotate 30 -depth 8 rgb:- | md5sum
    convert-im6.q16 rose: -resize 400% -emboss 2 -quantize Lab -colors 32 -depth 8 txt:- | md5sum
    convert-im6.q16 rose: -resize 300% rose.jpg
    identify-im6.q16 -format '%m %w %h\n' rose.jpg
}

java_work() {
    javac -d . "$FILES/sources/JavaWork.java"
    java -Xmx512m JavaWork
}

openssl_work() {
    openssl speed -seconds 1 -bytes 1024 sha256 aes-128-cbc >speed.txt 2>&1
    grep -c 1024 speed.txt
    openssl genrsa -out key.pem 2048 2>/dev/null
    openssl rsa -in key.pem -check -noout
    openssl req -new -x509 -key key.pem -subj /CN=test -days 2 -out cert.pem
    openssl verify -CAfile cert.pem cert.pem
    openssl dgst -sha256 -sign key.pem -out signature "$INPUT/figures"
    openssl rsa -in key.pem -pubout -out public.pem 2>/dev/null
    openssl dgst -sha256 -verify public.pem -signature signature "$INPUT/figures"
    openssl enc -aes-256-cbc -pbkdf2 -S 0011223344556677 -k secret -in "$INPUT/figures" | openssl dgst -sha512
}

sort_work() {
    sort --parallel=4 -S 8M -T . -k 2,2 -k 1,1n "$INPUT/figures" | md5sum
    sort -u -k 2,2 "$INPUT/figures" | wc -l
}

ssh_keygen_work() {
    for type in ed25519 ecdsa rsa; do
        ssh-keygen -q -t "$type" -N secret -C nobody -f "key_$type"
        ssh-keygen -y -P secret -f "key_$type" | cut -d ' ' -f 1
        ssh-keygen -l -f "key_$type.pub" | cut -d ' ' -f 1,3,4
    done
    ssh-keygen -p -q -P secret -N other -f key_rsa
    ssh-keygen -p -q -P secret -N '' -f key_ed25519
    ssh-keygen -Y sign -q -f key_ed25519 -n file <"$INPUT/figures" >signature
    ssh-keygen -Y check-novalidate -n file -s signature <"$INPUT/figures" | cut -d ' ' -f 1-3
}

tar_work() {
    tar -C /usr -cf - include/linux include/c++ | xz -1 -T2 >a.tar.xz
    xz -dc a.tar.xz | tar -tvf - | md5sum
    mkdir out
    tar -C out -xJf a.tar.xz
    find out -type f | wc -l
}

vim_work() {
    vim -es -u NONE -S "$FILES/sources/ex_script.vim" || echo "status $?"
    md5sum out.txt
    cat count.txt
}

"$@"
