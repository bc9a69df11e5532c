# SPDX-License-Identifier: Apache-2.0
. "$FILES/servers/server.sh"
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f user
cp user.pub keys
chmod 700 .
cat >config <<END
Port $PORT
ListenAddress 127.0.0.1
HostKey $PWD/host
AuthorizedKeysFile $PWD/keys
StrictModes no
UsePAM no
PidFile none
SetEnv SHLVL=9
Subsystem sftp internal-sftp
END
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
"$(command -v sshd)" -D -e -f config >server.log 2>&1 &
server=$!
until_ok bash -c ": <>/dev/tcp/127.0.0.1/$PORT"
options=(-F none -i user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR)
for i in 1 2 3; do ssh "${options[@]}" -p "$PORT" 127.0.0.1 "echo session $i; exit $i" || echo "status $?"; done
ssh "${options[@]}" -p "$PORT" 127.0.0.1 'cat | md5sum' <"$INPUT/figures"
printf 'get %s copy\n' "$INPUT/figures" | sftp -q "${options[@]}" -P "$PORT" 127.0.0.1 >/dev/null
md5sum copy
kill -TERM "$server"
stopped
