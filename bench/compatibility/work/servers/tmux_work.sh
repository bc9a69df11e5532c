# SPDX-License-Identifier: Apache-2.0
. "$FILES/servers/server.sh"
mux() { tmux -S socket -f /dev/null "$@"; }
mux new-session -d -x 100 -y 30 'env PS1=ready\$ bash --norc --noprofile'
server=$(mux display-message -p '#{pid}')
mux send-keys 'seq 1 20000; echo done-$((6 * 7))' Enter
on_screen() { mux capture-pane -p | grep -q "$1"; }
until_ok on_screen done-42
mux capture-pane -p | grep -v '^$' | tail -4
mux split-window -h 'bash --norc --noprofile -c "for i in {1..3000}; do echo line $i; done; sleep 100"'
mux set-option -g history-limit 5000
mux new-window -n second 'cat'
mux send-keys 'typed text' Enter
until_ok on_screen typed
mux list-windows -F '#{window_index} #{window_panes}'
mux kill-server
gone() { ! kill -0 "$server"; }
until_ok gone
server=
